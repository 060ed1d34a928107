package blazepose

import (
	"image"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/need"
)

// cpu reports the processor time per operation, which other work on the machine changes less than the wall clock.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Microseconds())/1000/float64(b.N), "cpu-ms/op") }
}

// One look of the landmark model at one person, crop included.
func BenchmarkLandmarks(b *testing.B) {
	for _, model := range Models() {
		b.Run(model, func(b *testing.B) {
			e, img := open(b, Config{Model: model}), read(b, need.Media(b, "images/mediapipe/pose.jpg"))
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if _, err := e.Landmarks(b.Context(), Mat(img), ROI{Cx: 493, Cy: 469, Size: 652}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// One look of the detector at a whole picture.
func BenchmarkDetect(b *testing.B) {
	e, img := open(b, Config{Model: "lite"}), read(b, need.Media(b, "images/mediapipe/pose.jpg"))
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if _, err := e.Detect(b.Context(), Mat(img), whole(img)); err != nil {
			b.Fatal(err)
		}
	}
}

// What the landmark model costs around the inference: crop, planes, decoding.
func BenchmarkAroundInference(b *testing.B) {
	e, img := open(b, Config{Model: "lite"}), read(b, need.Media(b, "images/mediapipe/pose.jpg"))
	heat := make([]float32, modelPoints*heatSide*heatSide)
	raw := make([]float32, modelPoints*valuesPerPoint)
	for name, pic := range map[string]Picture{"BGR": Mat(img), "planar": planar(b, img)} {
		b.Run(name, func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				e.close.cut(pic, ROI{Cx: 493, Cy: 469, Size: 652})
				decodePoints(&e.points, raw)
				refine(e.points[:NumPoints], heat)
			}
		})
	}
}

// What the detector costs around the inference.
func BenchmarkAroundDetector(b *testing.B) {
	e, img := open(b, Config{Model: "lite"}), read(b, need.Media(b, "images/mediapipe/pose.jpg"))
	for name, pic := range map[string]Picture{"BGR": Mat(img), "planar": planar(b, img)} {
		b.Run(name, func(b *testing.B) {
			defer cpu(b)()
			for b.Loop() {
				e.wide.fit(pic, image.Rectangle{Max: pic.Size()})
			}
		})
	}
}
