// Package machine finds out how much of the machine is ours. Go looks at the limits of the process's own cgroup only; on Amazon ECS the
// limit is the task's, one level up, so that a worker of two vCPUs would run a thread for each core of the host and be throttled.
package machine

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/posefleet/posefleet/worker/internal/ecs"
)

const mib = 1 << 20

// Limits is what the worker and its extractors may use together; 0 where nothing is known.
type Limits struct {
	CPU    float64 // cores
	Memory int64   // bytes
}

// Read asks the ECS task metadata, if there is a URI, and the cgroups of this process; the tighter word of the two counts.
func Read(ctx context.Context, metadataURI string) Limits {
	l := cgroups("/sys/fs/cgroup", "/proc/self/cgroup")
	if metadataURI == "" {
		return l
	}
	task, err := ecs.ReadTask(ctx, metadataURI)
	if err != nil {
		return l // said by whoever needs the task's name; never fatal
	}
	return l.and(Limits{CPU: task.Limits.CPU, Memory: task.Limits.Memory * mib})
}

// and is the tighter of two.
func (l Limits) and(o Limits) Limits {
	return Limits{CPU: tighter(l.CPU, o.CPU), Memory: tighter(l.Memory, o.Memory)}
}

func tighter[N float64 | int64](a, b N) N {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

// cgroups reads the limits of all cgroups that this process is in, up to the root: each of them holds.
func cgroups(mount, membership string) Limits {
	text, err := os.ReadFile(membership)
	if err != nil {
		return Limits{}
	}
	var l Limits
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := "," + parts[1] + ","; {
		case parts[1] == "":
			l = l.and(climb(mount, parts[2], unified))
		case strings.Contains(controllers, ",cpu,"):
			l = l.and(climb(filepath.Join(mount, "cpu"), parts[2], cpuOfVersion1))
		case strings.Contains(controllers, ",memory,"):
			l = l.and(climb(filepath.Join(mount, "memory"), parts[2], memoryOfVersion1))
		}
	}
	return l
}

// climb reads a folder and its parents up to the mount. Inside of a container the path may be the host's: then only the mount is there.
func climb(mount, path string, read func(dir string) Limits) Limits {
	var l Limits
	for dir := filepath.Clean("/" + path); ; dir = filepath.Dir(dir) {
		l = l.and(read(filepath.Join(mount, dir)))
		if dir == "/" {
			return l
		}
	}
}

func unified(dir string) Limits {
	var l Limits
	if quota, period, ok := strings.Cut(word(dir, "cpu.max"), " "); ok {
		l.CPU = number(quota) / math.Max(number(period), 1)
	}
	l.Memory = bytesOf(word(dir, "memory.max"))
	return l
}

func cpuOfVersion1(dir string) Limits {
	return Limits{CPU: number(word(dir, "cpu.cfs_quota_us")) / math.Max(number(word(dir, "cpu.cfs_period_us")), 1)}
}

// memoryOfVersion1: no limit is written as a number near the largest one.
func memoryOfVersion1(dir string) Limits {
	if n := bytesOf(word(dir, "memory.limit_in_bytes")); n < math.MaxInt64/2 {
		return Limits{Memory: n}
	}
	return Limits{}
}

func word(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// number is 0 for "max", for "-1" and for nothing.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func bytesOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
