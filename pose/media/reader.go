package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/posefleet/posefleet/pose"
)

// Reader reads the frames of a clip in the order of presentation. It is used by one goroutine, except for Close.
type Reader struct {
	// Width and Height are of the frames: the upright picture, scaled down to Config.LongSide if it is larger.
	Width, Height int
	// Scale is what frame pixels are multiplied with to get pixels of the upright picture, across and down.
	ScaleX, ScaleY float64

	ctx     context.Context
	info    *Info
	config  Config
	p       *process
	out     *os.File
	log     *decoderLog
	logDone chan struct{}
	clock   clock
	stored  [2]int
	changes int
	ended   bool
	packets *packetCount
}

// Stamp is the place of a frame in the clip.
type Stamp struct {
	Index int
	// T is in ms from the first shown frame.
	T float64
}

// Open starts to decode a clip that Probe has accepted. The reader ends with the context; the caller must Close it.
func Open(ctx context.Context, info *Info, c Config) (*Reader, error) {
	c = c.withDefaults()
	r := &Reader{ctx: ctx, info: info, config: c, log: newDecoderLog(), logDone: make(chan struct{})}
	r.fit()
	r.clock.interval = 1000 / firstOf(info.AverageFPS, info.NominalFPS, 25)
	r.clock.guessed = info.MissingStamps
	r.clock.jumps = info.Container == "mpegts"
	if err := r.start(); err != nil {
		return nil, fmt.Errorf("start ffmpeg: %w", err)
	}
	return r, nil
}

// Read fills buf, which holds FrameBytes, with the next frame. At the end of the clip it returns io.EOF; a clip of which
// nothing could be decoded is a *Fault.
func (r *Reader) Read(buf []byte) (Stamp, error) {
	if r.ended {
		return Stamp{}, io.EOF
	}
	if _, err := io.ReadFull(r.out, buf[:r.FrameBytes()]); err != nil {
		return Stamp{}, r.finish()
	}
	s, ok := r.log.next()
	if !ok {
		return Stamp{}, errors.Join(errors.New("the decoder gave a frame without a word about it"), r.Close())
	}
	if r.clock.frames == 0 {
		r.clock.tick = r.log.unit()
		r.stored = [2]int{s.width, s.height}
	}
	if err := r.resized(s); err != nil {
		return Stamp{}, errors.Join(err, r.Close())
	}
	at := Stamp{Index: r.clock.frames}
	at.T = r.clock.next(s.pts)
	if err := r.config.Limits.duration(at.T); err != nil {
		return Stamp{}, errors.Join(err, r.Close())
	}
	return at, nil
}

// Media describes the clip after the last frame was read.
func (r *Reader) Media() pose.Media {
	i := r.info
	m := pose.Media{
		Container: i.Container, Codec: i.Codec, Width: i.Width, Height: i.Height,
		Rotation: i.Rotation, Mirrored: i.Mirrored, PixelAspect: i.PixelAspect,
		FPS:          pose.FPS{Nominal: known(i.NominalFPS), Capture: known(i.CaptureFPS)},
		VariableRate: r.clock.variable(), DurationMs: r.clock.duration(i.DurationMs), Timestamps: pose.TimestampsPTS,
		FramesDeclared: i.FramesDeclared, FramesDecoded: r.clock.frames, DecodeErrors: r.log.errors,
		SizeChanges: r.changes, Partial: r.partial(),
	}
	if r.clock.estimated {
		m.Timestamps = pose.TimestampsEstimated
	}
	if m.DurationMs > 0 {
		m.FPS.Average = known(1000 * float64(r.clock.frames) / m.DurationMs)
	}
	return m
}

// Damaged reports after the last frame whether the decoder complained. Several threads that decode damaged frames beside each other give other
// pictures each time: only one thread gives the same ones.
func (r *Reader) Damaged() bool { return r.log.errors > 0 || len(r.log.tail) > 0 }

// Close kills the decoder if it still runs, and waits for its end. It may be called at any time and again.
func (r *Reader) Close() error {
	r.p.kill()
	r.out.Close()
	_ = r.p.wait()
	<-r.logDone
	return nil
}

// fit sets the size of the decoded frames.
func (r *Reader) fit() {
	w, h := r.info.Width, r.info.Height
	f := math.Min(1, float64(r.config.LongSide)/float64(max(w, h)))
	r.Width = max(1, int(math.Round(float64(w)*f)))
	r.Height = max(1, int(math.Round(float64(h)*f)))
	r.ScaleX, r.ScaleY = float64(w)/float64(r.Width), float64(h)/float64(r.Height)
}

func (r *Reader) start() error {
	out, outWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	logs, logWrite, err := os.Pipe()
	if err != nil {
		return errors.Join(err, out.Close(), outWrite.Close())
	}
	// A larger pipe saves switches between decoder and reader; where it is refused the default does.
	_, _ = unix.FcntlInt(outWrite.Fd(), unix.F_SETPIPE_SZ, 1<<20)
	cmd := exec.Command(r.config.FFmpeg, r.args()...)
	cmd.Stdout, cmd.Stderr = outWrite, logWrite
	r.p, err = startProcess(r.ctx, cmd)
	outWrite.Close()
	logWrite.Close()
	if err != nil {
		return errors.Join(err, out.Close(), logs.Close())
	}
	r.out = out
	// Ends with the decoder, which holds the other end of the pipe.
	go func() {
		defer close(r.logDone)
		defer logs.Close()
		r.log.read(logs)
	}()
	return nil
}

func (r *Reader) args() []string {
	args := []string{
		"-hide_banner", "-nostdin", "-nostats", "-loglevel", "repeat+level+info",
		"-threads", strconv.Itoa(r.config.Threads), "-max_pixels", strconv.Itoa(r.config.Limits.MaxPixels + r.config.Limits.MaxSide*64),
		"-copyts", "-noautorotate",
	}
	args = append(args, inputArgs(r.info.Path)...)
	return append(args, "-map", "0:"+strconv.Itoa(r.info.Stream), "-an", "-sn", "-dn", "-vf", r.filters(),
		"-fps_mode", "passthrough", "-f", "rawvideo", "pipe:1")
}

// filters scale before they turn, so that only the small picture is turned. showinfo stands first: it tells the stored size.
func (r *Reader) filters() string {
	o := r.info.orientation()
	w, h := r.Width, r.Height
	if o.sideways() {
		w, h = h, w
	}
	flags := "bilinear"
	if w < r.info.StoredWidth || h < r.info.StoredHeight {
		flags = "area"
	}
	f := []string{"showinfo=checksum=0", r.scale(w, h, flags)}
	return strings.Join(append(f, o.filters()...), ",")
}

// resized notes a change of the stored size and checks it.
func (r *Reader) resized(s stamp) error {
	if size := [2]int{s.width, s.height}; size != r.stored {
		r.stored = size
		r.changes++
	}
	return r.config.Limits.size(s.width, s.height)
}

// finish ends a reader that has met the end of the frames, and says what that means.
func (r *Reader) finish() error {
	r.ended = true
	r.out.Close()
	err := r.p.wait()
	<-r.logDone
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if stopped(err) {
		return fmt.Errorf("ffmpeg was stopped: %w", err)
	}
	if r.log.tooLarge {
		return faultf(CodeTooLarge, "a picture inside the clip is larger than %d pixels", r.config.Limits.MaxPixels)
	}
	if len(r.log.tail) > 0 {
		r.config.Logger.Debug("decoder complaints", slog.Int("damaged", r.log.errors), slog.Any("last", r.log.tail))
	}
	if r.clock.frames == 0 {
		return r.nothing(err)
	}
	if err != nil && r.log.errors == 0 {
		r.log.errors = 1
	}
	return r.recount()
}

// nothing says why there is not one frame.
func (r *Reader) nothing(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() < 0 {
		return fmt.Errorf("ffmpeg died: %w", err)
	}
	if r.log.noCodec {
		return faultf(CodeUnsupportedCodec, "there is no decoder for the video codec %q", r.info.Codec)
	}
	return faultf(CodeInvalidMedia, "not one frame of the video track (%s) could be decoded", r.info.Codec)
}

// recount walks through the file once more where frames may be missing. It returns io.EOF, the regular end.
func (r *Reader) recount() error {
	short := r.info.FramesDeclared != nil && r.clock.frames < *r.info.FramesDeclared
	if !short && (r.info.FramesDeclared != nil || r.log.errors == 0) {
		return io.EOF
	}
	n, err := countPackets(r.ctx, r.info, r.config)
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if stopped(err) {
		return fmt.Errorf("ffprobe was stopped: %w", err)
	}
	if err == nil || n.all > 0 {
		r.packets = &n
	}
	return io.EOF
}

// partial reports whether frames that should be shown are missing: fewer were decoded than can be read and are not hidden, or
// the file ends before its declared end.
func (r *Reader) partial() bool {
	step := math.Max(r.clock.maxStep, r.clock.interval)
	rest := r.info.DurationMs - r.clock.last
	if r.info.FramesDeclared == nil {
		return rest > math.Max(1000, 5*step) || r.packets != nil && r.clock.frames < r.packets.shown
	}
	if r.packets == nil {
		return false
	}
	return r.clock.frames < r.packets.shown || r.packets.all < *r.info.FramesDeclared && rest > 2.5*step
}

func known(v float64) *float64 {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

func firstOf(rates ...float64) float64 {
	for _, r := range rates {
		if r > 0 {
			return r
		}
	}
	return 0
}
