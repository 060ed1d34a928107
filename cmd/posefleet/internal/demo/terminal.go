package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

const (
	labelWidth = 10 // columns of the name before each line
	barWidth   = 30 // columns of a progress bar
)

// terminal prints the demo's lines, one per fact or finished stage. On a real terminal a stage that is under way has a bar, which its line
// replaces when it ends. It is used by one goroutine.
type terminal struct {
	w    io.Writer
	bars bool
	// open says that an unfinished bar is on the last line.
	open bool
	last string
}

// newTerminal prints to w; bars are drawn only if that is a terminal.
func newTerminal(w io.Writer) *terminal {
	f, ok := w.(*os.File)

	return &terminal{w: w, bars: ok && term.IsTerminal(int(f.Fd()))}
}

// line prints one fact under a name.
func (t *terminal) line(name, format string, args ...any) {
	t.clear()
	fmt.Fprintf(t.w, "  %-*s %s\n", labelWidth, name, fmt.Sprintf(format, args...))
}

// text prints a line as it is.
func (t *terminal) text(format string, args ...any) {
	t.clear()
	fmt.Fprintf(t.w, format+"\n", args...)
}

// bar shows the share of a stage that is done, 0 to 1, if the terminal can.
func (t *terminal) bar(name string, done float64) {
	if !t.bars {
		return
	}

	drawn := fmt.Sprintf("  %-*s %s %3.0f %%", labelWidth, name, blocks(done), clamp(done)*100)
	if t.open && drawn == t.last {
		return
	}

	fmt.Fprintf(t.w, "\r\x1b[K%s", drawn)
	t.open, t.last = true, drawn
}

// clear takes an open bar away.
func (t *terminal) clear() {
	if t.open {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.open = false
	}
}

func blocks(done float64) string {
	full := int(clamp(done) * barWidth)

	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

func clamp(done float64) float64 { return max(0, min(1, done)) }
