package doctor

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/need"
)

func TestSecrets(t *testing.T) {
	t.Parallel()

	a, b := secret(t), secret(t)
	found := examineSecrets(append(a, b...), secret(t))
	expect(t, one(t, found, "worker secret"), OK, "2 secrets", a[0].Fingerprint()+", "+b[0].Fingerprint())
	expect(t, one(t, found, "door secret"), OK, "1 secret")
	expect(t, one(t, examineSecrets(append(a, b...), b), "door secret"), Warn, "played back")

	if found := examineSecrets(a, nil); len(found) != 1 {
		t.Error(found)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	dead, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}

	closed := net.JoinHostPort("127.0.0.1", strconv.Itoa(dead))
	control := &url.URL{Scheme: "http", Host: closed}

	tests := []struct {
		name     string
		entries  []string
		control  *url.URL
		insecure bool
		level    Level
		words    string
	}{
		{"reachable", []string{l.Addr().String()}, nil, true, OK, "1 entry"},
		{"pattern", []string{"*.s3.eu-central-1.amazonaws.com"}, nil, false, OK, ""},
		{"wide pattern", []string{"*.com"}, nil, false, Warn, "every host below com"},
		{"no such name", []string{"nosuch.invalid"}, nil, false, Fail, "nosuch.invalid"},
		{"private", []string{l.Addr().String()}, nil, false, Fail, "private address 127.0.0.1"},
		{"private name", []string{"localhost"}, nil, false, Fail, "private address"},
		{"private without a port, for tests", []string{"127.0.0.1"}, nil, true, OK, ""},
		{"nobody there", []string{closed}, nil, true, Warn, "refused"},
		{"the control plane's own", []string{closed, "127.0.0.1"}, control, false, OK, "2 entries"},
		{"one of several", []string{"*.example.org", "nosuch.invalid", l.Addr().String()}, nil, true, Fail, "nosuch.invalid"},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()

			found := examineHosts(ctx, hostsArea{
				name: "storage hosts", variable: "POSEFLEET_STORAGE_HOSTS", entries: tt.entries, control: tt.control, insecure: tt.insecure,
			})
			expect(t, one(t, found, "storage hosts"), tt.level, tt.words)
		})
	}

	h := hostsArea{name: "callback hosts", variable: "V", entries: []string{"127.0.0.1"}, control: control}
	expect(t, one(t, examineCallbacks(t.Context(), h), h.name), OK)

	h.entries = []string{"*.example.org"}
	expect(t, one(t, examineCallbacks(t.Context(), h), h.name), Warn, closed+" is not in V")
}

func TestExtractor(t *testing.T) {
	t.Parallel()

	tests := []struct {
		how, name string
		level     Level
		words     string
	}{
		{"ok", "", OK, "fake 1 said hello"},
		{"deaf", "", OK, "fake 1 said hello"},
		{"exit", "", Fail, "ends without a hello (it says: assets_missing: there are [31mno models)"},
		{"garbage", "", Fail, "something else than a hello"},
		{"hang", "", Fail, "no hello in time"},
		{"old", "", Fail, "speaks protocol 2"},
		{"ok", ownExtractor, Warn, "no manifest here lists"},
	}

	for _, tt := range tests {
		t.Run(tt.how+tt.name, func(t *testing.T) {
			t.Parallel()

			limit := patience
			if tt.how == "hang" {
				limit = time.Second
			}

			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()

			e := fake(t, tt.how, tt.name)
			e.env = append(e.env, assets.EnvDir+"="+models(t))
			expect(t, one(t, examineHello(ctx, e), "extractor"), tt.level, tt.words)
		})
	}

	e := extractorArea{command: []string{filepath.Join(t.TempDir(), "gone")}}
	expect(t, one(t, examineHello(t.Context(), e), "extractor"), Fail, "does not start: no such file")
}

func TestModels(t *testing.T) {
	t.Parallel()

	dir := models(t)
	own := fake(t, "ok", ownExtractor)
	own.env = append(own.env, assets.EnvDir+"="+dir)
	expect(t, one(t, examineModels(t.Context(), own), "models"), OK, dir)

	write(t, filepath.Join(dir, "some.onnx"), "another model")
	expect(t, one(t, examineModels(t.Context(), own), "models"), Fail, "some.onnx", "wrong checksum")

	own.env = append(own.env, assets.EnvDir+"="+t.TempDir())
	expect(t, one(t, examineModels(t.Context(), own), "models"), Fail, "POSEFLEET_ASSETS")

	// Another extractor may have its models elsewhere.
	other := fake(t, "ok", "")
	other.env = append(other.env, assets.EnvDir+"="+t.TempDir())
	expect(t, one(t, examineModels(t.Context(), other), "models"), OK, "not ours")
}

func TestDecoder(t *testing.T) {
	t.Parallel()

	need.Program(t, "ffmpeg")

	real := fake(t, "ok", ownExtractor)
	if f := one(t, examineDecoder(t.Context(), real), "decoder"); f.Level == Fail {
		t.Error(f)
	}

	const table = "echo 'ffmpeg version 9.9 x'; echo ' V....D h264 H.264'; echo ' V..... libdav1d dav1d (codec av1)'; echo ' A....D hevc sound'"

	shell, err := exec.LookPath("sh")
	if err != nil {
		need.Skip(t, "no shell")
	}

	with := func(ffmpeg, ffprobe, name string) extractorArea {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "ffmpeg"), "#!"+shell+"\n"+ffmpeg)
		write(t, filepath.Join(dir, "ffprobe"), "#!"+shell+"\n"+ffprobe)

		e := fake(t, "ok", name)
		e.env = []string{"PATH=relative:" + dir}

		return e
	}

	expect(t, one(t, examineDecoder(t.Context(), with(table, "", ownExtractor)), "decoder"), Fail, "ffmpeg 9.9 can't decode hevc")
	expect(t, one(t, examineDecoder(t.Context(), with(table, "", "mine")), "decoder"), Warn, "if ", "needs it at all")
	expect(t, one(t, examineDecoder(t.Context(), with(table+"; echo ' V....D hevc HEVC'", "", ownExtractor)), "decoder"), Warn, "can't decode vp9")
	expect(t, one(t, examineDecoder(t.Context(), with(table, "exit 127", ownExtractor)), "decoder"), Fail, "ffprobe does not run")

	gone := fake(t, "ok", ownExtractor)
	gone.env = []string{"PATH=" + t.TempDir()}
	expect(t, one(t, examineDecoder(t.Context(), gone), "decoder"), Fail, "ffprobe is not there")

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	hang := with("", "while :; do read x < /dev/zero; done", ownExtractor)
	expect(t, one(t, examineDecoder(ctx, hang), "decoder"), Fail, "does not end in time")
}

func TestWorkDir(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	expect(t, examineWorkDir(dir, 1, 1)[0], OK, dir+" is writable", "free")
	expect(t, examineWorkDir(filepath.Join(dir, "a", "b"), 1, 1)[0], OK, "will be made")
	expect(t, examineWorkDir(dir, 2, 1<<60)[0], Warn, "2 analyses at once of the largest size")

	file := filepath.Join(dir, "file")
	write(t, file, "x")
	expect(t, examineWorkDir(file, 1, 1)[0], Fail, "no folder")
	expect(t, examineWorkDir("/proc/posefleet", 1, 1)[0], Fail, "can't be written")

	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("something is left behind: %v, %v", left, err)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()

	for want, f := range map[string]Finding{
		"ok    name: fine":            good("name", "fine"),
		"warn  name: hm → do":         warning("name", "do", "hm"),
		"FAIL  name: a b[31m → do it": failure("name", "do\nit", "a\nb\x1b[31m"),
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}

	for version, want := range map[string]bool{"6.2.0": true, "7.0.15": true, "6.0.16": false, "5.0": false, "10": true, "x": false} {
		if atLeast(version, 6, 2) != want {
			t.Error(version)
		}
	}

	if s := bytesText(3 << 29); s != "1.5 GiB" || !strings.HasSuffix(bytesText(12), "12 bytes") {
		t.Error(s)
	}
}
