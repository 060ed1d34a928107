package extract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"time"

	"github.com/posefleet/posefleet/protocol"
)

// Server does the jobs of one worker: JSON lines in and out.
type Server struct {
	// Extractor does the work.
	Extractor *Extractor
	// Name and Version introduce the program in the hello.
	Name string
	// In has one order a line, Out gets one message a line and nothing else may write to it.
	In  io.Reader
	Out io.Writer
	// Orphaned, if set, reports that whoever gave the orders is gone: a job that runs when the orders end is finished only if
	// somebody is there to hear of it.
	Orphaned func() bool
	// Logger gets one line a job. Nil: none.
	Logger *slog.Logger

	out       *json.Encoder
	cancel    context.CancelCauseFunc
	lastTold  time.Time
	toldJob   string
	deadWrite error
}

const (
	// maxOrder is the longest order line.
	maxOrder = 1 << 20
	// tellEvery is the least time between two progress lines.
	tellEvery = 300 * time.Millisecond
	// orphanEvery is how often a job without orders to come is checked for somebody who waits for it.
	orphanEvery = 200 * time.Millisecond

	artifactName = "pose.json.gz"
	artifactType = "application/json"
)

// errOrphaned ends the job of a worker that is gone.
var errOrphaned = errors.New("whoever gave the order is gone")

// Run says hello and does jobs until In ends or the context is cancelled. A fault of a job or of a line is answered and ends
// nothing; an error means that Out is broken.
func (s *Server) Run(ctx context.Context) error {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.cancel = cancel
	s.out = json.NewEncoder(s.Out)
	s.out.SetEscapeHTML(false)
	m := s.Extractor.Model()
	s.tell(protocol.ExtractorHello{
		Type: protocol.MessageHello, Protocol: protocol.ExtractorProtocol, Name: s.Name,
		Model: protocol.Model{Name: m.Name, Version: m.Version, SHA256: m.SHA256},
	})
	orders := make(chan order)
	inEnded := make(chan struct{})
	// Ends with In or, if it is not reading, with the context. A read that never returns dies with the process.
	go s.read(ctx, orders, inEnded)
	// Ends with the context.
	go s.watch(ctx, inEnded, cancel)
	for {
		select {
		case o, ok := <-orders:
			if !ok {
				return s.deadWrite
			}
			s.do(ctx, o)
		case <-ctx.Done():
			return s.deadWrite
		}
		if s.deadWrite != nil {
			return s.deadWrite
		}
	}
}

// order is one line of In: a job, or why it is none.
type order struct {
	job protocol.ExtractorJob
	err error
}

func (s *Server) read(ctx context.Context, orders chan<- order, ended chan<- struct{}) {
	defer close(orders)
	defer close(ended)
	in := bufio.NewReaderSize(s.In, 64<<10)
	for {
		line, err := readLine(in)
		if len(line) > 0 || errors.Is(err, errLongLine) {
			o := parseOrder(line, err)
			select {
			case orders <- o:
			case <-ctx.Done():
				return
			}
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return
		}
	}
}

// watch cancels the running job if In has ended and nobody waits any more.
func (s *Server) watch(ctx context.Context, inEnded <-chan struct{}, cancel context.CancelCauseFunc) {
	select {
	case <-inEnded:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(orphanEvery)
	defer tick.Stop()
	for s.Orphaned == nil || !s.Orphaned() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	cancel(errOrphaned)
}

var errLongLine = errors.New("the line is too long")

// readLine reads a line without its end; of one that is too long the rest is skipped.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= maxOrder {
			line = append(line, part...)
		} else {
			line = append(line[:0], make([]byte, maxOrder+1)...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > maxOrder {
			return nil, errors.Join(errLongLine, err)
		}
		return trimLine(line), err
	}
}

func trimLine(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r' || line[len(line)-1] == ' ') {
		line = line[:len(line)-1]
	}
	return line
}

func parseOrder(line []byte, err error) order {
	if errors.Is(err, errLongLine) {
		return order{err: protocol.NewFault(protocol.CodeInvalidJob, fmt.Sprintf("the line is longer than %d bytes", maxOrder))}
	}
	var o order
	if err := json.Unmarshal(line, &o.job); err != nil {
		o.err = protocol.NewFault(protocol.CodeInvalidJob, "the line is no message").WithCause(err)
		return o
	}
	switch {
	case o.job.Type != protocol.MessageJob:
		o.err = protocol.NewFault(protocol.CodeInvalidJob, fmt.Sprintf("a message of type %.40q is not known here", o.job.Type))
	case o.job.Job == "" || o.job.OutDir == "":
		o.err = protocol.NewFault(protocol.CodeInvalidJob, "a job needs an id and an outDir")
	}
	return o
}

func (s *Server) do(ctx context.Context, o order) {
	start := time.Now()
	result, err := protocol.ExtractorResult{}, o.err
	if err == nil {
		result, err = s.job(ctx, o.job)
	}
	if err == nil {
		s.Logger.Info("job done", slog.String("job", o.job.Job), slog.Int64("duration_ms", time.Since(start).Milliseconds()))
		s.tell(result)
		return
	}
	if ctx.Err() != nil {
		return // cancelled: whoever did that expects no answer
	}
	f := Fault(err)
	s.Logger.Warn("job failed", slog.String("job", o.job.Job), slog.String("code", string(f.Code)), slog.Any("error", err))
	s.tell(protocol.ExtractorError{Type: protocol.MessageError, Job: o.job.Job, Code: f.Code, Message: f.Message, Retryable: f.Retryable})
}

func (s *Server) job(ctx context.Context, j protocol.ExtractorJob) (_ protocol.ExtractorResult, err error) {
	params, err := readParams(j.Params)
	if err != nil {
		return protocol.ExtractorResult{}, err
	}
	r := Request{AnalysisID: &j.Job, Params: params, Dir: j.OutDir, Progress: func(p Progress) { s.progress(j.Job, p.Done) }}
	for _, c := range j.Clips {
		r.Clips = append(r.Clips, Input{ID: c.ID, Path: c.Path})
	}
	out, err := s.Extractor.Run(ctx, r)
	if err != nil {
		return protocol.ExtractorResult{}, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.WriteDocumentFile(filepath.Join(j.OutDir, artifactName)); err != nil {
		return protocol.ExtractorResult{}, err
	}
	return s.result(j.Job, out)
}

// readParams reads a job's parameters. A number of people may be written as 4.0, as it may in a claim: to some languages all numbers are such.
func readParams(data json.RawMessage) (protocol.Params, error) {
	var p struct {
		protocol.Params
		MaxPeople *float64 `json:"maxPeople"`
	}
	if len(data) == 0 {
		return p.Params, nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p.Params, unreadable(err)
	}
	if n := p.MaxPeople; n != nil {
		if *n != math.Trunc(*n) || math.Abs(*n) > math.MaxInt32 {
			return p.Params, protocol.NewFault(protocol.CodeInvalidJob, fmt.Sprintf("parameters: maxPeople %v is not a whole number in 1..%d", *n, MaxPeople))
		}
		p.Params.MaxPeople = int(*n)
	}
	return p.Params, nil
}

// unreadable is the fault of parameters that are none, with the one that is to blame where that is known.
func unreadable(err error) error {
	sentence := "the parameters can't be read"
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		sentence = fmt.Sprintf("parameters: %s can't be a %.40s", t.Field, t.Value)
	}
	return protocol.NewFault(protocol.CodeInvalidJob, sentence).WithCause(err)
}

func (s *Server) result(job string, out *Result) (protocol.ExtractorResult, error) {
	m := protocol.ExtractorResult{Type: protocol.MessageResult, Job: job, Artifact: artifactName, ContentType: artifactType}
	if out.Model != s.Extractor.Model() {
		m.Model = &protocol.Model{Name: out.Model.Name, Version: out.Model.Version, SHA256: out.Model.SHA256}
	}
	for _, c := range out.Clips {
		sum, err := c.Summary()
		if err != nil {
			return m, err
		}
		m.Clips = append(m.Clips, sum)
	}
	return m, nil
}

// progress tells the first share of a job at once and then a few a second.
func (s *Server) progress(job string, done float64) {
	if s.toldJob == job && time.Since(s.lastTold) < tellEvery {
		return
	}
	s.toldJob, s.lastTold = job, time.Now()
	s.tell(protocol.ExtractorProgress{Type: protocol.MessageProgress, Job: job, Done: rounded(done, 4)})
}

// tell writes one line. Once Out is broken nothing more is written, and work that nobody will hear of ends.
func (s *Server) tell(message any) {
	if s.deadWrite != nil {
		return
	}
	if s.deadWrite = s.out.Encode(message); s.deadWrite != nil {
		s.cancel(s.deadWrite)
	}
}
