package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
)

// textHandler writes log lines for people, in colour on a terminal.
func textHandler(w io.Writer, level slog.Level) slog.Handler {
	return tint.NewHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)})
}
