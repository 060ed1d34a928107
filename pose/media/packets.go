package media

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// packetCount is how many packets of the video track can be read, and how many of them are to be shown: an edit list hides some.
type packetCount struct{ all, shown int }

const countTimeout = 2 * time.Minute

// countPackets walks through the file once.
func countPackets(ctx context.Context, info *Info, c Config) (packetCount, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	args := append([]string{
		"-v", "quiet", "-select_streams", strconv.Itoa(info.Stream), "-show_entries", "packet=flags",
		"-of", "default=nw=1",
	}, inputArgs(info.Path)...)
	read, write, err := os.Pipe()
	if err != nil {
		return packetCount{}, err
	}
	defer read.Close()
	cmd := exec.Command(c.FFprobe, args...)
	cmd.Stdout = write
	p, err := startProcess(ctx, cmd)
	write.Close()
	if err != nil {
		return packetCount{}, err
	}
	n := countFlags(read)
	if err := p.wait(); ctx.Err() == nil {
		return n, err
	}
	return n, ctx.Err()
}

// countFlags counts lines such as "flags=K_"; D marks a packet that is decoded and not shown.
func countFlags(r io.Reader) packetCount {
	var n packetCount
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		flags, ok := bytes.CutPrefix(lines.Bytes(), []byte("flags="))
		if !ok {
			continue
		}
		n.all++
		if !bytes.Contains(flags, []byte("D")) {
			n.shown++
		}
	}
	return n
}
