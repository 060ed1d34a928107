package extractor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/posefleet/posefleet/protocol"
)

const (
	// maxErrorText bounds the sentence of an extractor's error, in bytes.
	maxErrorText = 400
	// maxArtifact bounds the document, in bytes.
	maxArtifact = 512 << 20
)

var codePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// message is one parsed line; exactly one field is set.
type message struct {
	hello    *protocol.ExtractorHello
	progress *protocol.ExtractorProgress
	result   *protocol.ExtractorResult
	fault    *protocol.ExtractorError
	garbage  error
}

// read parses stdout until its end or the first line that is no message.
func (p *process) read(maxLine int) {
	defer close(p.msgs)
	scanner := bufio.NewScanner(p.stdout)
	scanner.Buffer(make([]byte, 0, 4096), maxLine)
	for scanner.Scan() {
		m := parseMessage(scanner.Bytes())
		if !p.pass(m) || m.garbage != nil {
			break
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		p.pass(message{garbage: fmt.Errorf("a line of more than %d bytes", maxLine)})
	}
	_, _ = io.Copy(io.Discard, p.stdout) // a full pipe must not keep the process from ending
}

// pass hands m to the supervisor; false if that has turned away.
func (p *process) pass(m message) bool {
	select {
	case p.msgs <- m:
		return true
	case <-p.quit:
		return false
	}
}

// parseMessage reads one line. It never fails: what is no message is garbage.
func parseMessage(line []byte) message {
	parsed, err := protocol.ParseExtractorMessage(line)
	if err != nil {
		return message{garbage: errors.New("a line that is no message of the protocol")}
	}
	switch m := parsed.(type) {
	case protocol.ExtractorHello:
		return message{hello: &m}
	case protocol.ExtractorProgress:
		return message{progress: &m}
	case protocol.ExtractorResult:
		return message{result: &m}
	case protocol.ExtractorError:
		return message{fault: &m}
	default:
		return message{garbage: errors.New("a message of a kind that is not known here")}
	}
}

// faultOf turns an extractor's error message into a fault: a bounded sentence without control characters.
func faultOf(e *protocol.ExtractorError) (*protocol.Fault, error) {
	if !codePattern.MatchString(string(e.Code)) {
		return nil, errors.New("an error without a code")
	}
	text := strings.Join(strings.FieldsFunc(e.Message, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if text == "" {
		text = "the extractor gave no reason"
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return &protocol.Fault{Code: e.Code, Message: text, Retryable: e.Retryable}, nil
}

// checkResult holds a result to the job: the artifact is a plain file in the job's folder, each clip is named once.
func checkResult(r *protocol.ExtractorResult, job protocol.ExtractorJob, model protocol.Model) (Result, error) {
	path := filepath.Join(job.OutDir, r.Artifact) // the parser has seen to it that this is a plain name
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return Result{}, errors.New("a result whose artifact is no file in its folder")
	}
	if info.Size() == 0 || info.Size() > maxArtifact {
		return Result{}, fmt.Errorf("a result whose artifact has %d bytes", info.Size())
	}
	open := map[string]bool{}
	for _, c := range job.Clips {
		open[c.ID] = true
	}
	for _, c := range r.Clips {
		if !open[c.ID] {
			return Result{}, errors.New("a result that names a clip twice or one that is not in the job")
		}
		delete(open, c.ID)
	}
	if len(open) > 0 {
		return Result{}, errors.New("a result that leaves out a clip")
	}
	if r.Model != nil {
		model = *r.Model
	}
	return Result{ExtractorResult: *r, Path: path, Size: info.Size(), Model: model}, nil
}
