package queue

import (
	"bytes"
	"testing"

	"github.com/posefleet/posefleet/internal/nettest"
)

// proxy stands between a client and Redis and does what networks do.
type proxy struct{ net *nettest.Proxy }

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()

	return &proxy{nettest.Start(t, target)}
}

func (p *proxy) url() string { return "redis://" + p.net.Addr() }

// loseAnswer loses the answers of the next n requests that hold text.
func (p *proxy) loseAnswer(text string, n int) {
	p.net.LoseAnswers(n, func(request []byte) bool { return bytes.Contains(request, []byte(text)) })
}

func (p *proxy) lostAnswers() int { return p.net.Lost() }

// setMute makes all connections half open for ever, or heals the network for new ones.
func (p *proxy) setMute(mute bool) {
	if mute {
		p.net.Mute()
	} else {
		p.net.Heal()
	}
}
