package queue

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed lua
var luaFiles embed.FS

const includePrefix = "-- include: "

// script is one transition of the protocol: a file of lua/, with its includes put in front.
type script struct {
	name string
	body string
	sha  string
}

// scripts are the transitions by name. A field per file: a missing file is found by the first test.
type scripts struct {
	add, addAny, addBulk, take, finish                 *script
	retry, delay, putback                              *script
	extend, reclaim, unlock, rewake, stalled           *script
	progress, log, pause, resume, state, retryFinished *script
	remove, drain, clean, iterate                      *script
	flow, waitChildren, leaveParent, upsert, unplan    *script
	obliterate, requeue, promote, redelay              *script
	reprioritize, edit, orphans, readEvents            *script
}

// loadScripts joins the embedded files once per process. It can only fail if the package itself is broken.
var loadScripts = sync.OnceValues(func() (*scripts, error) {
	s := &scripts{}
	for name, field := range map[string]**script{
		"add": &s.add, "add_any": &s.addAny, "addbulk": &s.addBulk, "take": &s.take, "finish": &s.finish,
		"retry": &s.retry, "delay": &s.delay, "putback": &s.putback,
		"extend": &s.extend, "reclaim": &s.reclaim, "unlock": &s.unlock, "rewake": &s.rewake, "stalled": &s.stalled,
		"progress": &s.progress, "log": &s.log, "pause": &s.pause, "resume": &s.resume, "state": &s.state,
		"retry_finished": &s.retryFinished, "remove": &s.remove, "drain": &s.drain, "clean": &s.clean, "iterate": &s.iterate,
		"flow": &s.flow, "wait_children": &s.waitChildren, "leave_parent": &s.leaveParent, "upsert": &s.upsert, "unplan": &s.unplan,
		"obliterate": &s.obliterate, "requeue": &s.requeue, "promote": &s.promote, "redelay": &s.redelay,
		"reprioritize": &s.reprioritize, "edit": &s.edit, "orphans": &s.orphans, "readevents": &s.readEvents,
	} {
		loaded, err := loadScript(name)
		if err != nil {
			return nil, err
		}

		*field = loaded
	}

	return s, nil
})

func loadScript(name string) (*script, error) {
	var body strings.Builder

	if _, err := join(&body, "lua/"+name+".lua", nil); err != nil {
		return nil, fmt.Errorf("load script %s: %w", name, err)
	}

	sum := sha1.Sum([]byte(body.String()))

	return &script{name: name, body: body.String(), sha: hex.EncodeToString(sum[:])}, nil
}

// join writes a file, in it the files that it includes, each once: in a function's body the included functions are its own.
func join(to *strings.Builder, file string, seen []string) (all []string, err error) {
	if slices.Contains(seen, file) {
		return seen, nil
	}

	seen = append(seen, file)

	text, err := luaFiles.ReadFile(file)
	if err != nil {
		return nil, err
	}

	for line := range strings.Lines(string(text)) {
		code := strings.TrimLeft(line, " ")
		included, isInclude := strings.CutPrefix(code, includePrefix)

		switch {
		case isInclude:
			inside, err := join(to, path.Join("lua/include", strings.TrimSpace(included)+".lua"), seen)
			if err != nil {
				return nil, err
			}

			if code == line { // what a body includes is not known outside of it
				seen = inside
			}
		case !strings.HasPrefix(code, "--"): // comments are for readers of the files
			to.WriteString(line)
		}
	}

	return seen, nil
}

// run calls the script by its sum and, where the server doesn't know it (restart, SCRIPT FLUSH, failover), by its text. It calls the
// script at most once: go-redis' own retries are off, and whether a lost answer may be asked for again is the caller's decision.
func (s *script) run(ctx context.Context, l *line, k keys, args ...any) (any, error) {
	c := l.get()
	names := scriptKeys(c, k)

	reply, err := c.EvalSha(ctx, s.sha, names, args...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = c.Eval(ctx, s.body, names, args...).Result()
	}

	if err != nil && strings.Contains(err.Error(), wrongType) {
		err = fmt.Errorf("%w: %w", ErrForeignKey, err)
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}

	return reply, nil
}

// code runs a script that answers a number and turns a negative one into a *ScriptError.
func (s *script) code(ctx context.Context, l *line, k keys, id string, args ...any) (int64, error) {
	reply, err := s.run(ctx, l, k, args...)
	if err != nil {
		return 0, err
	}

	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("%s: %w: %T", s.name, errBadReply, reply)
	}

	if n < 0 {
		return n, &ScriptError{Code: Code(n), Op: s.name, JobID: id}
	}

	return n, nil
}
