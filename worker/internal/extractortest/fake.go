// Package extractortest is an extractor for tests: a real process that speaks the real protocol, and whose faults are
// written in the clips themselves, as they are in the field. A test binary becomes the extractor by calling Main
// first in its TestMain; Command is the way to start it.
//
// The first line of the first clip says what happens:
//
//	ok                      a document after a few progress messages
//	slow DURATION           the same, spread over the duration
//	crash                   the process exits in the middle
//	segv                    the process kills itself by SIGSEGV
//	garbage                 a line that is no message
//	huge                    a line without an end
//	hang                    nothing more, ever; ends on SIGTERM
//	stubborn                nothing more, ever; it and its child ignore SIGTERM
//	orphan                  starts a child that outlives it, and crashes
//	noisy                   a megabyte on stderr, then ok
//	error CODE [retryable]  an error message
//	escape                  a result that names a file outside its folder
//	missing                 a result that names no file
//	env                     ok, and the document is the environment
//	surplus                 ok, and the result is there three times, in one write
//	late                    ok, and the result comes once more as soon as the next job has begun to write its document
//	stranger                a result of a job that was never given
//	litter                  ok, and a file is left in TMPDIR
package extractortest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

const word = "fake-extractor"

// Frames is the number of frames that each clip has.
const Frames = 100

// model is what the fake says of itself.
var model = protocol.Model{Name: "fake", Version: "1", SHA256: strings.Repeat("ab", 32)}

// Command returns the command that starts the fake; hello is "ok", "none", "late DURATION", "wrong", "garbage" or
// "exit".
func Command(hello ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	if len(hello) == 0 {
		hello = []string{"ok"}
	}
	return append([]string{exe, word}, hello...)
}

// Main becomes the extractor and does not return if the process was started by Command.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != word {
		return
	}
	if len(os.Args) > 2 && os.Args[2] == "child" {
		sleepForEver(len(os.Args) > 3)
	}
	f := &fake{out: json.NewEncoder(os.Stdout)}
	f.hello(os.Args[2:])
	f.serve()
	os.Exit(0)
}

type fake struct {
	out  *json.Encoder
	late *protocol.ExtractorJob // its result comes once more
}

func (f *fake) hello(how []string) {
	h := protocol.ExtractorHello{Type: protocol.MessageHello, Protocol: protocol.ExtractorProtocol, Name: "fake", Model: model}
	switch how[0] {
	case "none":
		sleepForEver(false)
	case "late":
		d, _ := time.ParseDuration(how[1])
		<-time.After(d)
	case "wrong":
		h.Protocol = 99
	case "garbage":
		fmt.Println("loading model…")
		return
	case "exit":
		os.Exit(3)
	}
	f.say(h)
}

func (f *fake) serve() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var job protocol.ExtractorJob
		if json.Unmarshal(line, &job) != nil || len(job.Clips) == 0 {
			os.Exit(4)
		}
		f.job(job)
	}
}

func (f *fake) job(job protocol.ExtractorJob) {
	clip, err := os.ReadFile(job.Clips[0].Path)
	if err != nil {
		f.fail(job, "input_missing", false)
		return
	}
	first, _, _ := strings.Cut(string(clip), "\n")
	words := append(strings.Fields(first), "", "")
	f.progress(job, 0)
	if f.late != nil {
		_ = os.WriteFile(filepath.Join(job.OutDir, "half"), clip, 0o600)
		f.result(*f.late, "pose.json.gz")
		f.late = nil
	}
	switch words[0] {
	case "slow":
		d, _ := time.ParseDuration(words[1])
		for i := range 10 {
			<-time.After(d / 10)
			f.progress(job, float64(i+1)/10)
		}
	case "error":
		f.fail(job, words[1], words[2] == "retryable")
		return
	case "noisy":
		for range 10_000 {
			fmt.Fprintln(os.Stderr, strings.Repeat("n", 100))
		}
	case "litter":
		_ = os.WriteFile(filepath.Join(os.TempDir(), "litter"), clip, 0o600)
	case "escape":
		f.result(job, "../in/clip-0")
		return
	case "stranger":
		job.Job = "an_stranger"
		f.result(job, "pose.json.gz")
		return
	case "late":
		f.late = &job
	case "missing":
		f.result(job, "nothing.gz")
		return
	default:
		die(words[0])
	}
	body := clip
	if words[0] == "env" {
		body = []byte(strings.Join(os.Environ(), "\n"))
	}
	if err := os.WriteFile(filepath.Join(job.OutDir, "pose.json.gz"), document(job, body), 0o600); err != nil {
		f.fail(job, "disk_full", true)
		return
	}
	f.progress(job, 1)
	if words[0] == "surplus" {
		f.surplus(job)
		return
	}
	f.result(job, "pose.json.gz")
}

// surplus says the result three times in one write.
func (f *fake) surplus(job protocol.ExtractorJob) {
	var buf bytes.Buffer
	(&fake{out: json.NewEncoder(&buf)}).result(job, "pose.json.gz")
	if _, err := os.Stdout.Write(bytes.Repeat(buf.Bytes(), 3)); err != nil {
		os.Exit(5)
	}
}

// die does what the words that end or block the process say, and returns for every other.
func die(how string) {
	switch how {
	case "crash":
		os.Exit(7)
	case "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		select {}
	case "garbage":
		fmt.Println("Segmentation fault (core dumped)")
		sleepForEver(false)
	case "huge":
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for {
			if _, err := os.Stdout.Write(chunk); err != nil {
				sleepForEver(false)
			}
		}
	case "hang":
		sleepForEver(false)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		startChild("stubborn")
		sleepForEver(true)
	case "orphan":
		startChild()
		os.Exit(7)
	}
}

func (f *fake) progress(job protocol.ExtractorJob, done float64) {
	f.say(protocol.ExtractorProgress{Type: protocol.MessageProgress, Job: job.Job, Done: done})
}

func (f *fake) result(job protocol.ExtractorJob, artifact string) {
	r := protocol.ExtractorResult{
		Type: protocol.MessageResult, Job: job.Job, Artifact: artifact, ContentType: "application/json",
	}
	for _, c := range job.Clips {
		r.Clips = append(r.Clips, protocol.ResultClip{
			ID: c.ID, Frames: Frames, Width: 1080, Height: 1920, DurationMs: 1666.7, Quality: json.RawMessage(`{}`),
		})
	}
	f.say(r)
}

func (f *fake) fail(job protocol.ExtractorJob, code string, retryable bool) {
	f.say(protocol.ExtractorError{
		Type: protocol.MessageError, Job: job.Job, Code: protocol.Code(code),
		Message: "the clip says so", Retryable: retryable,
	})
}

func (f *fake) say(v any) {
	if err := f.out.Encode(v); err != nil {
		os.Exit(5)
	}
}

// document is the same for the same input, as the contract asks.
func document(job protocol.ExtractorJob, body []byte) []byte {
	sum := sha256.Sum256(body)
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"schema": "posefleet.pose/1", "analysisId": job.Job, "sha256": hex.EncodeToString(sum[:]), "params": job.Params,
		"body": string(body),
	})
	_ = w.Close()
	return buf.Bytes()
}

func startChild(args ...string) {
	c := exec.Command(os.Args[0], append([]string{word, "child"}, args...)...)
	if err := c.Start(); err != nil {
		os.Exit(6)
	}
}

func sleepForEver(ignoreTerm bool) {
	if ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	for {
		<-time.After(time.Hour)
	}
}
