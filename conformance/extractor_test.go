package conformance

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// extractorWord as the first argument makes the test binary an extractor.
const extractorWord = "stopwatch-extractor"

// stopwatch says how the test's own extractor behaves: it works for a time, on a CPU or asleep, and ends in a result or a fault. Its
// protocol is the real one; only the poses are missing.
type stopwatch struct {
	work      time.Duration
	burn      bool
	fail      string // code of the fault; empty: a result
	retryable bool
	journal   string // file that gets a line at each start and end
	// crash ends the process in the middle of the work, instead of an end.
	crash bool
	// mixed lets the analysis id say how the job behaves (drill_load_test.go); work is then the unit of time.
	mixed bool
}

// command is the value of POSEFLEET_EXTRACTOR for this behaviour.
func (s stopwatch) command() string {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}

	return fmt.Sprintf("'%s' %s -work %s -burn=%t -fail '%s' -retryable=%t -mixed=%t -journal '%s'", self, extractorWord, s.work, s.burn,
		s.fail, s.retryable, s.mixed, s.journal)
}

// starts reads the journal: how often work was begun on an analysis.
func starts(journal, id string) int {
	text, err := os.ReadFile(journal)
	if err != nil {
		return 0
	}

	return strings.Count(string(text), "start "+id+"\n")
}

func extractorMain(args []string) {
	var s stopwatch

	flags := flag.NewFlagSet(extractorWord, flag.ExitOnError)
	flags.DurationVar(&s.work, "work", 0, "")
	flags.BoolVar(&s.burn, "burn", false, "")
	flags.StringVar(&s.fail, "fail", "", "")
	flags.BoolVar(&s.retryable, "retryable", false, "")
	flags.BoolVar(&s.mixed, "mixed", false, "")
	flags.StringVar(&s.journal, "journal", "", "")
	_ = flags.Parse(args) // ExitOnError

	say := json.NewEncoder(os.Stdout).Encode
	model := protocol.Model{Name: "stopwatch", Version: "1", SHA256: strings.Repeat("ab", 32)}
	_ = say(protocol.ExtractorHello{Type: protocol.MessageHello, Protocol: protocol.ExtractorProtocol, Name: "stopwatch", Model: model})

	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var job protocol.ExtractorJob
		if json.Unmarshal(in.Bytes(), &job) != nil {
			os.Exit(4)
		}

		if say(s.do(job, say)) != nil {
			return
		}
	}
}

// do is one job: the work, then the message that ends it.
func (s stopwatch) do(job protocol.ExtractorJob, say func(any) error) any {
	if s.mixed {
		s = s.of(job.Job)
	}

	s.note("start", job.Job)
	s.spend(func(done float64) {
		_ = say(protocol.ExtractorProgress{Type: protocol.MessageProgress, Job: job.Job, Done: done})
	})

	if s.crash {
		os.Exit(7)
	}

	s.note("end", job.Job)

	if s.fail != "" {
		return fault(job.Job, protocol.Code(s.fail), "as ordered", s.retryable)
	}

	result := protocol.ExtractorResult{Type: protocol.MessageResult, Job: job.Job, Artifact: "pose.json.gz", ContentType: "application/json"}
	for _, c := range job.Clips {
		result.Clips = append(result.Clips, protocol.ResultClip{ID: c.ID, Frames: 1, Width: 2, Height: 2, DurationMs: 1})
	}

	if err := writeDocument(filepath.Join(job.OutDir, result.Artifact), job); err != nil {
		return fault(job.Job, protocol.CodeDiskFull, err.Error(), true)
	}

	return result
}

func fault(job string, code protocol.Code, text string, retryable bool) protocol.ExtractorError {
	return protocol.ExtractorError{Type: protocol.MessageError, Job: job, Code: code, Message: text, Retryable: retryable}
}

// spend lets the time pass, in steps with a progress message each.
func (s stopwatch) spend(progress func(float64)) {
	begin := time.Now()

	for next := 0.1; ; next += 0.1 {
		until := begin.Add(time.Duration(min(1, next) * float64(s.work)))
		if s.burn {
			for sink := 0; time.Now().Before(until); sink++ {
			}
		} else {
			<-time.After(time.Until(until))
		}

		if next >= 1 {
			return
		}

		if s.work > time.Second {
			progress(next)
		}
	}
}

func (s stopwatch) note(what, id string) {
	if s.journal == "" {
		return
	}

	f, err := os.OpenFile(s.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(5)
	}
	defer f.Close()

	_, _ = io.WriteString(f, what+" "+id+"\n")
}

// writeDocument writes a small document that is the same for the same analysis.
func writeDocument(path string, job protocol.ExtractorJob) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()

	w := gzip.NewWriter(f)
	if err := json.NewEncoder(w).Encode(map[string]any{"schema": "posefleet.pose/1", "analysisId": job.Job, "clips": []any{}}); err != nil {
		return err
	}

	return w.Close()
}
