package extract_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/media"
)

// Figures of this file are ratios as far as can be: both sides of a ratio are measured in one run, by turns, so that another load or
// another machine changes both alike.

// benchFrames keeps the benchmarks short.
const benchFrames = "40"

// benchClip is a clip of 1080×1920, H.264, 60 frames a second, one person; with more arguments for ffmpeg it is encoded anew.
func benchClip(b *testing.B, encoding ...string) string {
	b.Helper()
	if len(encoding) == 0 {
		encoding = []string{"-c", "copy"}
	}
	path := filepath.Join(b.TempDir(), "clip.mp4")
	args := append([]string{"-v", "error", "-nostdin", "-i", need.Media(b, "videos/pose2sim_balance_cam01.mp4"), "-an", "-frames:v", benchFrames}, encoding...)
	if out, err := exec.CommandContext(b.Context(), need.Program(b, "ffmpeg"), append(args, path)...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

func benchExtractor(b *testing.B, model string) *extract.Extractor {
	b.Helper()
	x, err := extract.New(extract.Config{Assets: need.Assets(b), Model: model})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = x.Close() })
	return x
}

// extraction runs a clip and returns its number of frames and the time.
func extraction(b *testing.B, x *extract.Extractor, path string) (frames int, took time.Duration) {
	b.Helper()
	start := time.Now()
	r, err := x.Run(b.Context(), extract.Request{Clips: []extract.Input{{ID: "c1", Path: path}}, Dir: b.TempDir()})
	if err != nil {
		b.Error(err)
		return 1, time.Since(start)
	}
	defer r.Close()
	return r.Clips[0].Media.FramesDecoded, time.Since(start)
}

// bare loads one model file and nothing else; the function runs it n times and returns wall time and CPU time of one run.
func bare(b *testing.B, file string) func(n int) (wall, cpu time.Duration) {
	b.Helper()
	dir := need.Assets(b)
	e, err := infer.NewORT(filepath.Join(dir, assets.RuntimeFile))
	if err != nil {
		b.Fatal(err)
	}
	s, err := e.Load(filepath.Join(dir, assets.ModelFile(file, false)), infer.Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	in := infer.Tensor{Shape: s.Inputs()[0].Shape, F32: make([]float32, 3*s.Inputs()[0].Shape[2]*s.Inputs()[0].Shape[3])}
	return func(n int) (time.Duration, time.Duration) {
		start, used := time.Now(), cpuTime()
		for range n {
			if _, err := s.Run(b.Context(), []infer.Tensor{in}); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start) / time.Duration(n), (cpuTime() - used) / time.Duration(n)
	}
}

// cpuTime is what this process and its children that have ended have used.
func cpuTime() time.Duration {
	sum := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err == nil {
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return sum
}

// decode reads all frames of a clip and returns the CPU time of one.
func decode(b *testing.B, path string) time.Duration {
	b.Helper()
	c := media.Config{Limits: media.DefaultLimits()}
	info, err := media.Probe(b.Context(), path, c)
	if err != nil {
		b.Fatal(err)
	}
	used := cpuTime()
	r, err := media.Open(b.Context(), info, c)
	if err != nil {
		b.Fatal(err)
	}
	buf, n := make([]byte, r.FrameBytes()), 0
	for _, err = r.Read(buf); err == nil; _, err = r.Read(buf) {
		n++
	}
	_ = r.Close()
	return (cpuTime() - used) / time.Duration(max(n, 1))
}

// A whole clip against bare inference. of-bare is the clip's rate by that of bare inference on one core; beyond is the share of CPU time
// that is neither decoding nor inference.
func BenchmarkClip(b *testing.B) {
	path := benchClip(b)
	for _, model := range []string{"full", "heavy"} {
		b.Run(model, func(b *testing.B) {
			x, landmark, detector := benchExtractor(b, model), bare(b, "pose_landmark_"+model), bare(b, assets.Detector)
			extraction(b, x, path) // the first run warms caches and models
			for b.Loop() {
				before, _ := landmark(20)
				runs, used := x.Runs(), cpuTime()
				frames, took := extraction(b, x, path)
				used = cpuTime() - used
				after, landmarkCPU := landmark(20)
				_, detectorCPU := detector(10)
				fps, bareFPS := float64(frames)/took.Seconds(), 2/(before+after).Seconds()
				known := time.Duration(x.Runs().Landmark-runs.Landmark)*landmarkCPU + time.Duration(x.Runs().Detector-runs.Detector)*detectorCPU +
					time.Duration(frames)*decode(b, path)
				b.ReportMetric(fps, "fps")
				b.ReportMetric(bareFPS, "bare-fps")
				b.ReportMetric(fps/bareFPS, "of-bare")
				b.ReportMetric(used.Seconds()*1000/float64(frames), "cpu-ms/frame")
				b.ReportMetric(1-known.Seconds()/used.Seconds(), "beyond")
			}
		})
	}
}

// Two clips at once against one after the other.
func BenchmarkTwoClips(b *testing.B) {
	path := benchClip(b)
	pair := [2]*extract.Extractor{benchExtractor(b, "heavy"), benchExtractor(b, "heavy")}
	for b.Loop() {
		_, first := extraction(b, pair[0], path)
		_, second := extraction(b, pair[1], path)
		start := time.Now()
		var wg sync.WaitGroup
		for _, x := range pair {
			wg.Go(func() { extraction(b, x, path) })
		}
		wg.Wait()
		b.ReportMetric((first+second).Seconds()/time.Since(start).Seconds(), "speedup")
	}
}

// A clip of 4K, HEVC, 10 bits: rate, and the most memory of the process with its children.
func Benchmark4K(b *testing.B) {
	path := benchClip(b, "-vf", "scale=2160:3840", "-pix_fmt", "yuv420p10le", "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=none")
	x := benchExtractor(b, "full")
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		most := make(chan int64)
		go func() { most <- watchMemory(ctx) }() // ends with ctx
		frames, took := extraction(b, x, path)
		stop()
		b.ReportMetric(float64(frames)/took.Seconds(), "fps")
		b.ReportMetric(float64(<-most)/(1<<20), "tree-MiB")
	}
}

// watchMemory is the highest resident memory of this process and its children until the context ends.
func watchMemory(ctx context.Context) (most int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return most
		case <-tick.C:
			most = max(most, treeMemory())
		}
	}
}

func treeMemory() int64 {
	sum := resident("self")
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		for child := range strings.FieldsSeq(string(text)) {
			sum += resident(child)
		}
	}
	return sum
}

// resident is the resident memory of a process in bytes, 0 if it is gone.
func resident(pid string) int64 {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "statm"))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
