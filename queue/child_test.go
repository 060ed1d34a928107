package queue

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/posefleet/posefleet/internal/child"
)

// childEnv holds the Redis address of a worker in a process of its own, which a test kills.
const childEnv = "POSEFLEET_QUEUE_TEST_CHILD"

// runChild is that process: it takes one job, says so, and never finishes it.
func runChild(url string) int {
	o := DefaultWorkerOptions()
	o.Options = Options{RedisURL: url, Name: "q"}
	o.LockDuration, o.LockRenewTime, o.StalledInterval = 4*time.Second, 200*time.Millisecond, 200*time.Millisecond

	w, err := NewWorker(o, func(ctx context.Context, j *Job) (any, error) {
		fmt.Println("started", j.ID)
		<-ctx.Done()

		return nil, ctx.Err()
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	if err := w.Run(context.Background()); err != nil {
		return 1
	}

	return 0
}

// startChild starts it and waits until it has the job.
func (k *kit) startChild(id string) *child.Process {
	k.t.Helper()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+k.url)
	out, err := cmd.StdoutPipe()
	k.must(err)
	proc, err := child.Start(cmd)
	k.must(err)
	k.t.Cleanup(proc.Kill)

	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "started "+id+"\n" {
		k.t.Fatalf("child said %q, %v", line, err)
	}

	return proc
}
