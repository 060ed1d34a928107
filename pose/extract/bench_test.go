package extract_test

import (
	"context"
	"errors"
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
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/extract"
	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/media"
)

// Figures of this file are ratios as far as can be: both sides of a ratio are measured in one run, by turns, so that another load or
// another machine changes both alike. What they mean is told in docs/benchmarks-pose.md.

// onePerson hides a bystander of the clip: the bars are about one athlete. The noise is the sensor's, without which no encoder would need
// the bits that phones spend.
const onePerson = "drawbox=0:270:220:510:color=0xA89890:t=fill,noise=alls=5:allf=t+u"

// benchClip is a clip of one athlete, there and back again so that it lasts, encoded by ffmpeg's arguments.
func benchClip(b *testing.B, frames int, filter string, encoding ...string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "clip.mp4")
	args := append([]string{
		"-v", "error", "-nostdin", "-r", "30", "-i", need.Media(b, "videos/pose2sim_balance_cam01.mp4"), "-an",
		"-filter_complex", "[0:v]trim=end_frame=" + strconv.Itoa(frames/2) + "," + onePerson + ",split[a][b];[b]reverse[r];[a][r]concat=n=2" + filter + "[v]", "-map", "[v]",
	}, encoding...)
	if out, err := exec.CommandContext(b.Context(), need.Program(b, "ffmpeg"), append(args, path)...).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

// phoneClip is 1080×1920, H.264, 30 frames a second, 17 Mb/s.
func phoneClip(b *testing.B) string {
	b.Helper()
	return benchClip(b, 200, "", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "17M", "-maxrate", "20M", "-bufsize", "17M", "-pix_fmt", "yuv420p")
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
		return time.Since(start) / time.Duration(max(1, n)), (cpuTime() - used) / time.Duration(max(1, n))
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

// opened starts to decode a clip as a pass does.
func opened(b *testing.B, path string) *media.Reader {
	b.Helper()
	c := media.Config{Limits: media.DefaultLimits(), Planar: true}
	info, err := media.Probe(b.Context(), path, c)
	if err != nil {
		b.Fatal(err)
	}
	r, err := media.Open(b.Context(), info, c)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// decode reads all frames of a clip and returns their number.
func decode(b *testing.B, path string) (frames int) {
	b.Helper()
	r := opened(b, path)
	defer r.Close()
	buf := make([]byte, r.FrameBytes())
	for {
		if _, err := r.Read(buf); err != nil {
			return frames
		}
		frames++
	}
}

// models runs the models of a pass without the pass.
type models struct {
	landmark, detector func(n int) (wall, cpu time.Duration)
}

func bareModels(b *testing.B, model string) models {
	b.Helper()
	return models{bare(b, "pose_landmark_"+model), bare(b, assets.Detector)}
}

// pass decodes a clip a few frames ahead and beside it runs the models as often as a pass did, spread over the frames: nothing that does both,
// one inference at a time, can be faster or cheaper.
func (m models) pass(b *testing.B, path string, frames int, runs blazepose.Runs) (wall, cpu time.Duration) {
	b.Helper()
	start, used := time.Now(), cpuTime()
	r := opened(b, path)
	defer r.Close()
	ahead := make(chan struct{}, 4)
	// Ends with the clip.
	go func() {
		defer close(ahead)
		buf := make([]byte, r.FrameBytes())
		for _, err := r.Read(buf); err == nil; _, err = r.Read(buf) {
			ahead <- struct{}{}
		}
	}()
	var done blazepose.Runs
	n := 0
	for range ahead {
		n++
		landmark, detector := n*runs.Landmark/max(1, frames), n*runs.Detector/max(1, frames)
		m.landmark(landmark - done.Landmark)
		m.detector(detector - done.Detector)
		done = blazepose.Runs{Landmark: landmark, Detector: detector}
	}
	_ = r.Close()
	return time.Since(start), cpuTime() - used
}

// since are the runs of an extractor since an earlier count.
func since(x *extract.Extractor, before blazepose.Runs) blazepose.Runs {
	now := x.Runs()
	return blazepose.Runs{Landmark: now.Landmark - before.Landmark, Detector: now.Detector - before.Detector}
}

// A whole clip, probe and start included, as a phone writes it and as it is sent on. of-bare is its rate by that of bare inference on one core
// that has nothing beside it; of-bound by that of decoding and inference alone, side by side; beyond is the CPU time by theirs, less one.
func BenchmarkClip(b *testing.B) {
	phone := phoneClip(b)
	sent := benchClip(b, 200, "", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "2M", "-maxrate", "3M", "-bufsize", "2M", "-pix_fmt", "yuv420p")
	for _, c := range []struct{ name, model, path string }{
		{"full", "full", phone}, {"full-2M", "full", sent}, {"heavy", "heavy", phone}, {"heavy-2M", "heavy", sent},
	} {
		b.Run(c.name, func(b *testing.B) {
			x, m := benchExtractor(b, c.model), bareModels(b, c.model)
			decode(b, c.path) // warms caches
			for b.Loop() {
				before, _ := m.landmark(20)
				runs, used := x.Runs(), cpuTime()
				frames, took := extraction(b, x, c.path)
				used = cpuTime() - used
				after, _ := m.landmark(20)
				boundWall, boundCPU := m.pass(b, c.path, frames, since(x, runs))
				fps, bareFPS := float64(frames)/took.Seconds(), 2/(before+after).Seconds()
				b.ReportMetric(fps, "fps")
				b.ReportMetric(bareFPS, "bare-fps")
				b.ReportMetric(fps/bareFPS, "of-bare")
				b.ReportMetric(boundWall.Seconds()/took.Seconds(), "of-bound")
				b.ReportMetric(used.Seconds()*1000/float64(frames), "cpu-ms/frame")
				b.ReportMetric(used.Seconds()/boundCPU.Seconds()-1, "beyond")
			}
		})
	}
}

// Two clips at once against one after the other.
func BenchmarkTwoClips(b *testing.B) {
	path := phoneClip(b)
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

// A clip of 2160×3840, HEVC, 10 bits, 43 Mb/s: rate, that of the decoder alone, and the most memory of the process with its children.
func Benchmark4K(b *testing.B) {
	path := benchClip(b, 60, ",scale=2160:3840:flags=bicubic,noise=alls=3:allf=t+u", "-pix_fmt", "yuv420p10le", "-c:v", "libx265", "-preset", "ultrafast",
		"-b:v", "43M", "-x265-params", "log-level=none")
	x, m := benchExtractor(b, "full"), bareModels(b, "full")
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		most := make(chan int64)
		go func() { most <- watchMemory(ctx) }() // ends with ctx
		runs, used := x.Runs(), cpuTime()
		frames, took := extraction(b, x, path)
		used = cpuTime() - used
		stop()
		memory := <-most
		start := time.Now()
		decode(b, path)
		decoding := time.Since(start)
		boundWall, boundCPU := m.pass(b, path, frames, since(x, runs))
		b.ReportMetric(float64(frames)/took.Seconds(), "fps")
		b.ReportMetric(float64(frames)/decoding.Seconds(), "decoder-fps")
		b.ReportMetric(boundWall.Seconds()/took.Seconds(), "of-bound")
		b.ReportMetric(used.Seconds()/boundCPU.Seconds()-1, "beyond")
		b.ReportMetric(float64(memory)/(1<<20), "tree-MiB")
	}
}

// From the start of a job in a warm extractor to the end of its first frame, less what the decoder needs to hand it out and the models to look
// at it.
func BenchmarkNextJob(b *testing.B) {
	path := need.Media(b, "videos/pose2sim_balance_cam01.mp4")
	x, m := benchExtractor(b, "full"), bareModels(b, "full")
	extraction(b, x, path)
	var job, decoder, inference time.Duration
	n := 0
	for b.Loop() {
		runs := x.Runs()
		job += firstFrame(b, x, path)
		runs = since(x, runs)
		landmark, _ := m.landmark(runs.Landmark)
		detector, _ := m.detector(runs.Detector)
		inference += landmark*time.Duration(runs.Landmark) + detector*time.Duration(runs.Detector)
		start := time.Now()
		r := opened(b, path)
		if _, err := r.Read(make([]byte, r.FrameBytes())); err != nil {
			b.Fatal(err)
		}
		decoder += time.Since(start)
		_ = r.Close()
		n++
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(n) }
	b.ReportMetric(ms(job), "job-ms")
	b.ReportMetric(ms(decoder), "decoder-ms")
	b.ReportMetric(ms(inference), "inference-ms")
	b.ReportMetric(ms(job-decoder-inference), "beyond-ms")
}

// firstFrame begins a job, ends it after its first frame, and returns the time until then.
func firstFrame(b *testing.B, x *extract.Extractor, path string) (took time.Duration) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	start := time.Now()
	_, err := x.Run(ctx, extract.Request{Clips: []extract.Input{{ID: "c1", Path: path}}, Dir: b.TempDir(), Progress: func(p extract.Progress) {
		if took == 0 {
			took = time.Since(start)
		}
		stop()
	}})
	if !errors.Is(err, context.Canceled) {
		b.Fatalf("the job was not ended: %v", err)
	}
	return took
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
