// Package freeport finds a free loopback port for a server program that cannot choose one itself.
package freeport

import (
	"fmt"
	"net"
)

// Find is a port of 127.0.0.1 that was free a moment ago. Another process may take it before the caller's server binds it, so
// that callers must be ready to try again with another one.
func Find() (int, error) {
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
