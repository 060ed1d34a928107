package extract_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/protocol"
)

// message is any message of the protocol.
type message struct {
	Type      string          `json:"type"`
	Protocol  int             `json:"protocol"`
	Job       string          `json:"job"`
	Done      float64         `json:"done"`
	Code      protocol.Code   `json:"code"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Artifact  string          `json:"artifact"`
	Model     *protocol.Model `json:"model"`
	Clips     []protocol.ResultClip
}

// server is a running Server with its two ends.
type server struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Scanner
	end chan error
}

func serve(t *testing.T, ctx context.Context, orphaned func() bool) *server {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	s := &extract.Server{Extractor: newExtractor(t, "lite"), Name: "test", In: inRead, Out: outWrite, Orphaned: orphaned}
	r := &server{t: t, in: in, out: bufio.NewScanner(out), end: make(chan error, 1)}
	go func() {
		err := s.Run(ctx)
		outWrite.Close()
		r.end <- err
	}()
	t.Cleanup(func() { in.Close(); inRead.Close() })
	return r
}

func (s *server) send(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// next is the next message; progress is counted and skipped.
func (s *server) next() (m message, progress int) {
	s.t.Helper()
	for s.out.Scan() {
		m = message{}
		if err := json.Unmarshal(s.out.Bytes(), &m); err != nil {
			s.t.Fatalf("%q: %v", s.out.Text(), err)
		}
		if m.Type != protocol.MessageProgress {
			return m, progress
		}
		if m.Done < 0 || m.Done > 1 {
			s.t.Errorf("progress %v", m.Done)
		}
		progress++
	}
	s.t.Fatal("no more messages")
	return m, 0
}

func job(id, path, dir, more string) string {
	return fmt.Sprintf(`{"type":"job","job":%q,"clips":[{"id":"c1","path":%q}],"outDir":%q%s}`, id, path, dir, more)
}

func TestServerDoesJobsAndSurvivesBadOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clip, text := makeClip(t, filepath.Join(dir, "clip.mp4"), "-t", "0.4"), filepath.Join(dir, "text.mp4")
	if err := os.WriteFile(text, []byte(strings.Repeat("no video\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, t.Context(), nil)
	if m, _ := s.next(); m.Type != protocol.MessageHello || m.Protocol != 1 || m.Model == nil || m.Model.Name != "blazepose-lite" || len(m.Model.SHA256) != 64 {
		t.Fatalf("hello %+v", m)
	}
	steps := []struct {
		name, line, job string
		code            protocol.Code // "" = a result
		says            string
	}{
		{"a job", job("an_1", clip, dir, ""), "an_1", "", ""},
		{"no JSON", "hello?", "", protocol.CodeInvalidJob, ""},
		{"a long line", strings.Repeat("x", 3<<20), "", protocol.CodeInvalidJob, ""},
		{"an unknown type", `{"type":"dance","job":"an_9"}`, "an_9", protocol.CodeInvalidJob, ""},
		{"a text", job("an_2", text, dir, ""), "an_2", protocol.CodeInvalidMedia, ""},
		{"a clip that is absent", job("an_3", clip+"x", dir, ""), "an_3", protocol.CodeInputMissing, ""},
		{"bad parameters", job("an_4", clip, dir, `,"params":{"maxPeople":"many"}`), "an_4", protocol.CodeInvalidJob, "parameters: maxPeople can't be a string"},
		{"half a person", job("an_10", clip, dir, `,"params":{"maxPeople":2.5}`), "an_10", protocol.CodeInvalidJob, "maxPeople 2.5 is not a whole number"},
		{"a rate that is none", job("an_11", clip, dir, `,"params":{"captureFps":"60"}`), "an_11", protocol.CodeInvalidJob, "captureFps can't be a string"},
		{"people as a broken number", job("an_12", clip, dir, `,"params":{"maxPeople":4.0}`), "an_12", "", ""},
		{"a folder that is absent", job("an_5", clip, filepath.Join(dir, "absent"), ""), "an_5", protocol.CodeExtractorFailed, ""},
		{"no clips", `{"type":"job","job":"an_6","clips":[],"outDir":"/tmp","params":null}`, "an_6", protocol.CodeInvalidJob, ""},
		{"unknown parameters", job("an_7", clip, dir, `,"params":{"later":[1]}`), "an_7", "", ""},
		{"another model", job("an_8", clip, dir, `,"params":{"model":"full"}`), "an_8", "", ""},
	}
	for _, st := range steps {
		s.send(st.line)
		m, progress := s.next()
		want := protocol.MessageError
		if st.code == "" {
			want = protocol.MessageResult
		}
		if m.Type != want || m.Job != st.job || m.Code != st.code || !strings.Contains(m.Message, st.says) {
			t.Fatalf("%s: %+v", st.name, m)
		}
		if st.code == "" && (m.Artifact != "pose.json.gz" || progress < 1 || len(m.Clips) != 1 || m.Clips[0].Frames != 10 || m.Clips[0].Width != 160) {
			t.Errorf("%s: %+v after %d progress messages", st.name, m, progress)
		}
		if named := m.Model != nil; named != (st.job == "an_8") {
			t.Errorf("%s: model %+v", st.name, m.Model)
		}
	}
	s.in.Close()
	if err := <-s.end; err != nil {
		t.Error(err)
	}
}

func TestServerFinishesItsJobWhenTheOrdersEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, t.Context(), func() bool { return false })
	s.next()
	s.send(job("an_1", makeClip(t, filepath.Join(dir, "clip.mp4"), "-t", "1"), dir, ""))
	s.in.Close()
	if m, _ := s.next(); m.Type != protocol.MessageResult {
		t.Errorf("%+v", m)
	}
	if err := <-s.end; err != nil {
		t.Error(err)
	}
}

func TestServerStopsAtOnce(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"cancelled", "orphaned"} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			dir, out := t.TempDir(), t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := serve(t, ctx, func() bool { return true })
			s.next()
			s.send(job("an_1", makeClip(t, filepath.Join(dir, "clip.mp4"), "-t", "200"), out, ""))
			if !s.out.Scan() { // the first progress: the job runs
				t.Fatal("no progress")
			}
			if why == "cancelled" {
				cancel()
			} else {
				s.in.Close()
			}
			// Ends with the server, which closes its end.
			go func() {
				for s.out.Scan() {
				}
			}()
			select {
			case err := <-s.end:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("still running")
			}
			if left, _ := os.ReadDir(out); len(left) != 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
