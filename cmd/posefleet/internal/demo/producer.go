package demo

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/posefleet/posefleet/internal/node"
	"github.com/posefleet/posefleet/protocol"
	"github.com/posefleet/posefleet/queue"
)

// nodeLimit bounds the Node producer; it needs about a second.
const nodeLimit = 30 * time.Second

//go:embed producer.cjs
var producerScript []byte

// enqueue adds the claim-check job of an analysis: as a Node service does if Node and BullMQ are on this machine, by our own producer
// otherwise. It says in words which one it was.
func enqueue(ctx context.Context, q *queue.Queue, at queue.Options, id string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, nodeLimit)
	defer cancel()

	cmd, err := node.Command(limited, "-", id)
	if err != nil {
		return "posefleet's own producer (" + firstLine(err.Error()) + ")", enqueueOurselves(ctx, q, id)
	}

	version, err := runNodeProducer(cmd, at)
	if err != nil {
		return "", fmt.Errorf("enqueue by Node: %w", err)
	}

	return "Node, BullMQ " + version, nil
}

func enqueueOurselves(ctx context.Context, q *queue.Queue, id string) error {
	_, err := q.Add(ctx, protocol.JobName, protocol.NewJobData(id), queue.JobOptions{
		JobID: id, Attempts: 3, Backoff: &queue.Backoff{Type: "exponential", Delay: time.Second},
	})

	return err
}

// runNodeProducer gives the script on stdin and the Redis URL, which may hold a password, in the environment.
func runNodeProducer(cmd *exec.Cmd, at queue.Options) (version string, err error) {
	var out, complaints bytes.Buffer

	cmd.Env = append(cmd.Env, "REDIS_URL="+at.RedisURL, "PREFIX="+at.Prefix, "QUEUE="+at.Name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(producerScript), &out, &complaints
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which cancels the command
	cmd.WaitDelay = stopGrace

	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, firstLine(complaints.String()))
	}

	var answer struct {
		Version string   `json:"version"`
		Jobs    []string `json:"jobs"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || len(answer.Jobs) != 1 {
		return "", fmt.Errorf("unexpected answer %q", firstLine(out.String()))
	}

	return answer.Version, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")

	return line
}
