package arch_test

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

const producerProgram = `package main

import (
	"context"
	"log"

	"github.com/posefleet/posefleet/queue"
)

func main() {
	q, err := queue.NewQueue(queue.Options{RedisURL: "redis://127.0.0.1:6379/0", Name: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()

	o := queue.DefaultWorkerOptions()
	o.RedisURL, o.Name = "redis://127.0.0.1:6379/0", "mail"

	w, err := queue.NewWorker(o, func(context.Context, *queue.Job) (any, error) { return nil, nil })
	if err != nil {
		log.Fatal(err)
	}

	log.Fatal(w.Run(context.Background()))
}
`

// A program of somebody else's that needs the queue only builds with go-redis and the little that go-redis needs: nothing of our other
// dependencies is compiled or even downloaded.
func TestQueueAlone(t *testing.T) {
	t.Parallel()

	dir, root := t.TempDir(), need.ModuleRoot(t)
	write(t, filepath.Join(dir, "main.go"), producerProgram)
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf(
		"module example.org/app\n\ngo 1.26\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", module, root))

	// Sums are what "go get" would write; without a proxy nothing can be fetched that is not needed for our own build.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}

	write(t, filepath.Join(dir, "go.sum"), string(sums))

	program := filepath.Join(dir, "app")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}

	var modules []string
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}

	want := []string{
		"github.com/cespare/xxhash/v2", module, "github.com/redis/go-redis/v9", "go.uber.org/atomic", "golang.org/x/sys",
	}

	if slices.Sort(modules); !slices.Equal(modules, want) {
		t.Errorf("the program holds\n\t%s\nwant\n\t%s", strings.Join(modules, "\n\t"), strings.Join(want, "\n\t"))
	}

	file, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}

	if mib := float64(file.Size()) / (1 << 20); mib > 16 {
		t.Errorf("the program has %.1f MiB", mib)
	} else {
		t.Logf("the program has %.1f MiB: %v", mib, modules)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
