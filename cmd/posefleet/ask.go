package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errNotConfirmed says that a person thought better of it.
var errNotConfirmed = errors.New("nothing was deleted")

// canAsk tells whether there is a person to ask: one who sees stderr and answers at stdin.
func (h *host) canAsk() bool {
	in, ok := h.stdin.(*os.File)
	return ok && isTerminal(in) && in.Name() != os.DevNull && isTerminal(h.stderr)
}

// ask puts a question to a person. All but a clear yes is a no.
func (h *host) ask(question string) error {
	fmt.Fprintf(h.stderr, "%s? [y/N] ", question)
	answer, err := bufio.NewReader(h.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}
