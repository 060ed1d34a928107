package extractor

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/time/rate"
)

const (
	stderrLine  = 2 << 10 // bytes kept of one line
	lastLine    = 300     // bytes of the last line that an error may carry
	stderrBurst = 100     // lines at once
	stderrRate  = 10      // lines a second after that
)

// logLines drains stderr into the log until its end. A decoder can fill megabytes with the same complaint, so lines
// are cut and their rate is bounded; the pipe itself is always read, since a full one would block the process. It
// returns the last line that says something, cut to what fits an error.
func logLines(r io.Reader, log *slog.Logger) (last string) {
	limit := rate.NewLimiter(stderrRate, stderrBurst)
	in := bufio.NewReaderSize(r, stderrLine)
	dropped := 0
	for {
		line, rest, err := in.ReadLine()
		if err != nil {
			break
		}
		text := strings.ToValidUTF8(strings.TrimSpace(string(line)), "?")
		if text != "" {
			last = text
		}
		for rest && err == nil {
			_, rest, err = in.ReadLine()
		}
		switch {
		case text == "":
		case !limit.Allow():
			dropped++
		default:
			log.Info("extractor says", slog.String("line", text), slog.Int("dropped_before", dropped))
			dropped = 0
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if dropped > 0 {
		log.Info("extractor said more than is logged", slog.Int("dropped", dropped))
	}
	_, _ = io.Copy(io.Discard, r)
	return strings.ToValidUTF8(last[:min(len(last), lastLine)], "")
}
