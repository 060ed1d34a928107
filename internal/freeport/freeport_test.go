package freeport

import (
	"net"
	"testing"
)

// What is found can be bound, and is none of those that systems give to whoever asks for any.
func TestFind(t *testing.T) {
	t.Parallel()

	for range 20 {
		port, err := Find()
		if err != nil {
			t.Fatal(err)
		}

		if port < lowest || port > highest || !free(port) {
			t.Errorf("port %d", port)
		}
	}
}

func TestTakenIsNotFree(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	if addr, ok := l.Addr().(*net.TCPAddr); !ok || free(addr.Port) {
		t.Errorf("%v is free", l.Addr())
	}

	if port, err := anyPort(); err != nil || !free(port) {
		t.Errorf("port %d, %v", port, err)
	}
}
