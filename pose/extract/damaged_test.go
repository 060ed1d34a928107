package extract_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/protocol"
)

// A damaged clip gives the same bytes each time too, though threads that decode its frames beside each other do not: what they make of a
// damaged frame, and whether they say so, hangs on who is first.
func TestDamagedClipGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "clip.mp4")
	damagedClip(t, path)
	x := newExtractor(t, "lite")
	d, want := extractClip(t, x, path, protocol.Params{})
	if n := d.Clips[0].Media.DecodeErrors; n < 10 {
		t.Fatalf("the clip has %d damaged frames", n)
	}
	for range 2 {
		if got, bytesOf := extractClip(t, x, path, protocol.Params{}); !bytes.Equal(bytesOf, want) {
			t.Errorf("other bytes: %d damaged frames, not %d", got.Clips[0].Media.DecodeErrors, d.Clips[0].Media.DecodeErrors)
		}
	}
}

// damagedClip makes a clip whose frames refer to many others, and changes bytes in most of them.
func damagedClip(t *testing.T, path string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), "-v", "error", "-nostdin", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25",
		"-t", "2", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "fast", "-bf", "3", "-g", "100", "file:"+path).CombinedOutput()
	if err != nil {
		t.Fatalf("make clip: %v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(data, []byte("mdat")), bytes.Index(data, []byte("moov"))-4
	for i := from + (to-from)/3; i < to-100; i += 200 {
		data[i] ^= 0x55
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
