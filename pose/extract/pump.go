package extract

import (
	"context"
	"errors"
	"io"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/media"
)

// picture is one decoded frame in one of the pump's buffers.
type picture struct {
	media.Stamp
	blazepose.Picture
	// pixels are the bytes of the frame.
	pixels []byte
	// mat are the same bytes for OpenCV; of planar frames there is none.
	mat gocv.Mat
	// motion is the change from the frame before; nil if there is none or it shows another scene.
	motion *motion
}

// pump decodes ahead of the pass into a few buffers that it uses again and again. Its goroutine owns the reader.
type pump struct {
	reader *media.Reader
	full   chan *picture
	free   chan *picture
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once full is closed
	all    []*picture
}

// pumpBuffers let decoding and inference overlap when their times vary from frame to frame.
const pumpBuffers = 4

// heavy is the name of the largest model in results.
const heavy = "blazepose-heavy"

// onePixels is the area of the largest picture that one thread decodes faster than the largest model looks at one athlete.
const onePixels = 1920 * 1088

// decoderThreads is the number of threads that decode a clip for a model; 0 is the decoder's own. It follows from the two alone, never from
// the machine or its load: see media.Config. Beside the largest model one thread is enough, and a second one would only take turns with the model
// on the last core, and with that of another clip.
func decoderThreads(model string, info *media.Info) int {
	if model == heavy && info.StoredWidth*info.StoredHeight <= onePixels {
		return 1
	}
	return 0
}

// startPump starts to decode a probed clip. The caller must close the pump.
func startPump(ctx context.Context, info *media.Info, c media.Config) (*pump, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := media.Open(ctx, info, c)
	if err != nil {
		cancel()
		return nil, err
	}
	p := &pump{
		reader: r, cancel: cancel, done: make(chan struct{}),
		full: make(chan *picture, pumpBuffers), free: make(chan *picture, pumpBuffers),
	}
	for range pumpBuffers {
		pic, err := newPicture(r, c.Planar)
		if err != nil {
			return nil, errors.Join(err, r.Close(), p.release())
		}
		p.all = append(p.all, pic)
		p.free <- pic
	}
	// Ends at the end of the clip, at a fault, or with the context, which close cancels.
	go p.run(ctx)
	return p, nil
}

func newPicture(r *media.Reader, planar bool) (*picture, error) {
	if planar {
		c := r.Colours()
		pic := &picture{pixels: make([]byte, r.FrameBytes())}
		pic.Picture = blazepose.Planar(pic.pixels, r.Width, r.Height, blazepose.Colours{Red: c.Red, Blue: c.Blue, Full: c.Full})
		return pic, nil
	}
	mat := gocv.NewMatWithSize(r.Height, r.Width, gocv.MatTypeCV8UC3)
	pixels, err := mat.DataPtrUint8()
	if err != nil {
		return nil, errors.Join(err, mat.Close())
	}
	return &picture{Picture: blazepose.Mat(mat), pixels: pixels, mat: mat}, nil
}

func (p *pump) run(ctx context.Context) {
	defer close(p.done)
	defer close(p.full)
	for {
		select {
		case pic := <-p.free:
			if p.err = p.fill(pic); p.err != nil {
				return
			}
			p.full <- pic // never blocks: there are as many places as pictures
		case <-ctx.Done():
			p.err = context.Cause(ctx)
			return
		}
	}
}

func (p *pump) fill(pic *picture) (err error) {
	pic.Stamp, err = p.reader.Read(pic.pixels)
	return err
}

// next waits for the next picture; the error after the last one is io.EOF. The picture goes back with put.
func (p *pump) next() (*picture, error) {
	pic, ok := <-p.full
	if !ok {
		if p.err == nil {
			return nil, io.EOF
		}
		return nil, p.err
	}
	return pic, nil
}

func (p *pump) put(pic *picture) { p.free <- pic }

// close ends the decoder and frees the buffers.
func (p *pump) close() error {
	p.cancel()
	err := p.reader.Close()
	<-p.done
	return errors.Join(err, p.release())
}

func (p *pump) release() error {
	p.cancel()
	var errs []error
	for _, pic := range p.all {
		if pic.mat.Ptr() != nil {
			errs = append(errs, pic.mat.Close())
		}
	}
	return errors.Join(errs...)
}
