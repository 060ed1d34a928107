package media

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
)

// stamp is what the decoder tells about one frame before the frame itself comes.
type stamp struct {
	// pts is in units of the clock; nil where the frame has no time.
	pts           *int64
	width, height int
}

// decoderLog reads ffmpeg's stderr to its end: the stamps of the frames, which it hands over in order, and complaints, which it
// counts. It never waits for whoever takes the stamps, so that ffmpeg can't block on stderr; how far ffmpeg may run ahead is
// bounded by the pipe that carries the frames.
type decoderLog struct {
	mu     sync.Mutex
	ready  sync.Cond
	stamps []stamp
	closed bool

	num, den int64 // unit of the stamps in seconds, 0 until known
	errors   int
	tooLarge bool
	noCodec  bool
	tail     []string
}

const (
	// logLine is the longest line that is looked at; the rest of a longer one is skipped.
	logLine = 4096
	// logTail is how many complaints are kept.
	logTail = 8
)

func newDecoderLog() *decoderLog {
	l := &decoderLog{}
	l.ready.L = &l.mu
	return l
}

// read reads r to its end.
func (l *decoderLog) read(r io.Reader) {
	in := bufio.NewReaderSize(r, logLine)
	for {
		line, err := in.ReadSlice('\n')
		l.line(string(line))
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil {
			break
		}
	}
	l.mu.Lock()
	l.closed = true
	l.ready.Broadcast()
	l.mu.Unlock()
}

// next waits for the next frame's stamp; false if there will be none.
func (l *decoderLog) next() (stamp, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.stamps) == 0 && !l.closed {
		l.ready.Wait()
	}
	if len(l.stamps) == 0 {
		return stamp{}, false
	}
	s := l.stamps[0]
	l.stamps = l.stamps[1:]
	return s, true
}

func (l *decoderLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case strings.Contains(text, "_showinfo_"):
		l.showinfo(text)
	case strings.Contains(text, "[error]"), strings.Contains(text, "[fatal]"), strings.Contains(text, "[warning]"):
		l.complaint(text)
	}
}

func (l *decoderLog) showinfo(text string) {
	if _, rest, ok := strings.Cut(text, "config in time_base: "); ok {
		unit, _, _ := strings.Cut(rest, ",")
		num, den, _ := strings.Cut(unit, "/")
		l.num, _ = strconv.ParseInt(num, 10, 64)
		l.den, _ = strconv.ParseInt(strings.TrimSpace(den), 10, 64)
		return
	}
	if s, ok := parseShowinfo(text); ok {
		l.stamps = append(l.stamps, s)
		l.ready.Signal()
	}
}

// parseShowinfo reads a line such as "[…] n:   1 pts:    256 pts_time:0.0166667 pos: 28748 fmt:yuv420p sar:0/1 s:540x960 …".
func parseShowinfo(text string) (stamp, bool) {
	_, rest, ok := strings.Cut(text, " n:")
	if !ok {
		return stamp{}, false
	}
	_, rest, ok = strings.Cut(rest, " pts:")
	if !ok {
		return stamp{}, false
	}
	var s stamp
	fields := strings.Fields(rest)
	if len(fields) > 0 {
		if v, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			s.pts = &v
		}
	}
	for _, f := range fields {
		if size, ok := strings.CutPrefix(f, "s:"); ok {
			w, h, _ := strings.Cut(size, "x")
			s.width, _ = strconv.Atoi(w)
			s.height, _ = strconv.Atoi(h)
			break
		}
	}
	return s, true
}

// complaint counts packets and frames that are damaged. Other lines of the decoder are no proof of damage: a clip that was cut
// between key frames makes some decoders miss pictures that nobody is to see.
func (l *decoderLog) complaint(text string) {
	for _, damage := range []string{"Error while decoding stream", "corrupt decoded frame", "corrupt input packet"} {
		if strings.Contains(text, damage) {
			l.errors++
		}
	}
	if strings.Contains(text, "Picture size") && strings.Contains(text, "is invalid") {
		l.tooLarge = true
	}
	if strings.Contains(text, "no decoder found") || strings.Contains(text, "Decoder not found") {
		l.noCodec = true
	}
	if strings.Contains(text, "[warning]") || strings.HasPrefix(text, "[rawvideo @") {
		return
	}
	if len(l.tail) == logTail {
		l.tail = l.tail[1:]
	}
	l.tail = append(l.tail, text[:min(len(text), 200)])
}

// unit is one unit of the stamps in ms.
func (l *decoderLog) unit() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.num <= 0 || l.den <= 0 {
		return 1
	}
	return 1000 * float64(l.num) / float64(l.den)
}
