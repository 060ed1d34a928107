// Package freeport finds a free loopback port for a server program that cannot choose one itself.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Find looks between these: below them are the ports of well-known servers, above them those that systems give to whoever asks for any,
// thousands of connections among them. A port from up there could be gone before the caller's server binds it, and while that server is
// stopped in order to be started again.
const (
	lowest  = 15000
	highest = 32767
	tries   = 100
)

// Find is a port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller's server binds it, so that
// callers must be ready to try again with another one.
func Find() (int, error) {
	for range tries {
		if port := lowest + rand.N(highest-lowest+1); free(port) {
			return port, nil
		}
	}

	// Nearly all are taken.
	return anyPort()
}

// free tells whether a server can bind the port.
func free(port int) bool {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}

	return l.Close() == nil
}

// anyPort is the system's choice.
func anyPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()

	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("find a free port: listener has address %v", l.Addr())
	}

	return addr.Port, nil
}
