package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/media"
	"github.com/posefleet/posefleet/pose/synth"
)

// soakClips is how many clips the soak gives one extractor; docs/pose.md has the figures of 2000.
var soakClips = flag.Int("extract.soak", 40, "number of clips of TestSoakOfOneWarmExtractor")

const (
	// soakFrames keeps clips short: what may leak leaks by the clip, by its size or by its damage.
	soakFrames = 5
	// soakRounds is after how many rounds of all clips an extractor is warm: each size and each fault was there twice.
	soakRounds = 2
	// soakMiB, soakThreads are how much more a warm extractor may have at the end than at the start.
	soakMiB, soakThreads = 16, 4
)

// soakClip is one of the clips that go round. Of ten one is broken.
type soakClip struct {
	name, path string
	params     string
	broken     bool
	// answer is what came of the first time: the sum of the document, or the fault. It must never be another.
	answer string
}

// TestSoakOfOneWarmExtractor gives one extractor many clips, one in ten broken: memory, files, threads and scratch stay flat, and each clip
// gives the same bytes every time.
func TestSoakOfOneWarmExtractor(t *testing.T) {
	t.Parallel()
	scratch := t.TempDir()
	s, clips := startServe(t, "TMPDIR="+scratch), soakSet(t)
	var samples []soakSample
	start := time.Now()
	for i := range *soakClips {
		s.soak(t, i, clips)
		if warm := soakRounds * len(clips); i+1 >= min(warm, *soakClips/2) {
			samples = append(samples, s.sample(t, scratch, i+1))
		}
	}
	for i := 0; i < len(samples); i += max(1, len(samples)/10) {
		t.Logf("%v", samples[i])
	}
	t.Logf("%v: %d clips in %v", samples[len(samples)-1], *soakClips, time.Since(start).Round(time.Second))
	flat(t, samples)
}

// soak gives the i-th job and compares its answer.
func (s *served) soak(t *testing.T, i int, clips []*soakClip) {
	t.Helper()
	c := soakTurn(i, clips)
	dir := t.TempDir()
	job := map[string]any{
		"type": "job", "job": c.name, "outDir": dir, "params": json.RawMessage(c.params), "clips": []map[string]string{{"id": "c1", "path": c.path}},
	}
	if err := json.NewEncoder(s.in).Encode(job); err != nil {
		t.Fatal(err)
	}
	m := s.next(t)
	for m["type"] == "progress" {
		m = s.next(t)
	}
	left := soakLeft(t, dir)
	var answer string
	switch m["type"] {
	case "result":
		sum := sha256.Sum256([]byte(left["pose.json.gz"]))
		answer = hex.EncodeToString(sum[:])
		delete(left, "pose.json.gz")
	case "error":
		answer = fmt.Sprint(m["code"], ": ", m["message"])
	}
	if c.answer == "" {
		c.answer = answer
	}
	if answer != c.answer || len(left) > 0 || !c.broken && m["type"] != "result" {
		t.Fatalf("clip %d, %s: %v, %d files left; the first time the answer was %s, now it is %s", i, c.name, m, len(left), c.answer, answer)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}

// soakTurn is whose turn it is: every tenth is a broken one.
func soakTurn(i int, clips []*soakClip) *soakClip {
	turn := func(broken bool, n int) *soakClip {
		var some []*soakClip
		for _, c := range clips {
			if c.broken == broken {
				some = append(some, c)
			}
		}
		return some[n%len(some)]
	}
	if i%10 == 9 {
		return turn(true, i/10)
	}
	return turn(false, i-i/10)
}

// soakLeft is the content of the files in a folder by name.
func soakLeft(t *testing.T, dir string) map[string]string {
	t.Helper()
	left := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		left[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// soakSample is what an extractor has between two jobs.
type soakSample struct{ clip, kib, threads, fds, children, scratch int }

func (s soakSample) String() string {
	return fmt.Sprintf("after clip %d: RSS %.1f MiB, %d threads, %d open files, %d children, %d temporary files", s.clip, float64(s.kib)/1024, s.threads, s.fds, s.children, s.scratch)
}

func (s *served) sample(t *testing.T, scratch string, clip int) soakSample {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid))
	text, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatal(err)
	}
	out := soakSample{clip: clip, scratch: len(soakLeft(t, scratch))}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch name {
		case "VmRSS":
			out.kib = n
		case "Threads":
			out.threads = n
		}
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	out.fds = len(fds)
	tasks, err := filepath.Glob(filepath.Join(proc, "task", "*", "children"))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		// A thread may end between the two looks.
		if pids, err := os.ReadFile(task); err == nil {
			out.children += len(strings.Fields(string(pids)))
		}
	}
	return out
}

// flat compares the last fifth of the samples with the first: the medians, because one sample more or less is Go's collector.
func flat(t *testing.T, samples []soakSample) {
	t.Helper()
	n := max(1, len(samples)/5)
	first, last := samples[:n], samples[len(samples)-n:]
	median := func(some []soakSample, of func(soakSample) int) int {
		var all []int
		for _, s := range some {
			all = append(all, of(s))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, m := range []struct {
		name string
		of   func(soakSample) int
		more int
	}{
		{"RSS in KiB", func(s soakSample) int { return s.kib }, soakMiB << 10},
		{"threads", func(s soakSample) int { return s.threads }, soakThreads},
		{"open files", func(s soakSample) int { return s.fds }, 0},
	} {
		before, after := median(first, m.of), median(last, m.of)
		t.Logf("%s: %d in the first fifth, %d in the last", m.name, before, after)
		if after > before+m.more {
			t.Errorf("%s: %d at first, %d in the end, at most %d more are right", m.name, before, after, m.more)
		}
	}
	for _, s := range samples {
		if s.children != 0 || s.scratch != 0 {
			t.Fatalf("%v, want no child and no file between two jobs", s)
		}
	}
}

// soakSet draws clips of several sizes with nobody, one and two people, and breaks some.
func soakSet(t *testing.T) []*soakClip {
	t.Helper()
	need.Program(t, "ffmpeg")
	dir := t.TempDir()
	var clips []*soakClip
	add := func(name, params string, broken bool) string {
		path := filepath.Join(dir, name)
		clips = append(clips, &soakClip{name: name, path: path, params: params, broken: broken})
		return path
	}
	for i, size := range [][2]int{{320, 180}, {180, 320}, {426, 240}, {640, 360}, {240, 426}, {360, 640}, {854, 480}} {
		soakDraw(t, add(fmt.Sprintf("drawn-%dx%d.mp4", size[0], size[1]), fmt.Sprintf(`{"smooth":%t}`, i%2 == 0), false), size[0], size[1], i%3)
	}
	whole, err := os.ReadFile(clips[3].path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	for i := len(flipped) * 2 / 3; i < len(flipped); i += 97 {
		flipped[i] ^= 0x55
	}
	for _, b := range []struct {
		name   string
		params string
		data   []byte
	}{
		{"empty.mp4", "{}", nil},
		{"text.mp4", "{}", []byte(strings.Repeat("no clip at all\n", 300))},
		{"head.mp4", "{}", whole[:40]},
		{"half.mp4", "{}", whole[:len(whole)*2/3]},
		{"flipped.mp4", "{}", flipped},
		{"index.mp4", "{}", slices.Concat(whole[:200], make([]byte, 300), whole[500:])},
		{"asks-for-the-moon.mp4", `{"maxPeople":1000}`, whole},
	} {
		if err := os.WriteFile(add(b.name, b.params, true), b.data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	add("absent.mp4", "{}", true)
	return clips
}

// soakDraw draws a clip with up to two people.
func soakDraw(t *testing.T, path string, width, height, people int) {
	t.Helper()
	scene := synth.Scene{Width: width, Height: height}
	for i := range people {
		scene.Actors = append(scene.Actors, synth.Actor{Clothes: synth.Wardrobe(i), At: func(s float64) (synth.Place, bool) {
			return synth.Place{X: float64(width) * (0.3 + 0.4*float64(i)), Y: 0.9 * float64(height), Height: 0.6 * float64(height), Stance: synth.Jack(s, 0.2)}, true
		}})
	}
	w, err := media.Create(t.Context(), path, width, height, media.Config{})
	if err != nil {
		t.Fatal(err)
	}
	painter, picture := synth.NewPainter(scene), make([]byte, 3*width*height)
	for i := range soakFrames {
		at := 40 * float64(i)
		painter.Draw(at/1000, picture)
		if err := w.Write(at, picture); err != nil {
			t.Fatal(errors.Join(err, w.Close()))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
