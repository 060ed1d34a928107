// Command poseeval measures how good the poses are (see pose/eval) and writes the figures as JSON and as a table.
//
//	poseeval [-media DIR] [-models heavy,full,lite] [-sample N] [-only pictures,odd] [-json PATH] [-table PATH]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/posefleet/posefleet/pose/eval"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "poseeval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("poseeval", flag.ContinueOnError)
	media := flags.String("media", os.Getenv("POSEFLEET_MEDIA"), "folder with pictures, clips and truth")
	models := flags.String("models", "heavy,full,lite", "models to measure, with commas between")
	sample := flags.Int("sample", 1, "look at every n-th picture and clip only")
	only := flags.String("only", "", "parts to measure, of "+strings.Join(eval.Groups(), ", ")+"; all if empty")
	jsonPath := flags.String("json", "", "where to write the figures as JSON; - is stdout")
	table := flags.String("table", "", "where to write them as a Markdown table, between the marks of a text that is there; - is stdout, also if nothing is given")
	if err := flags.Parse(args); err != nil {
		return err
	}
	groups, err := groupsOf(*only)
	if err != nil {
		return err
	}
	var reports []*eval.Report
	for model := range strings.SplitSeq(*models, ",") {
		r, err := eval.Run(ctx, eval.Config{Media: *media, Model: model, Sample: *sample, Groups: groups, Progress: os.Stderr})
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	if *jsonPath == "" && *table == "" {
		*table = "-"
	}
	return errors.Join(
		write(*jsonPath, func(w io.Writer) error { return eval.WriteJSON(w, reports) }),
		write(*table, func(w io.Writer) error { return merged(w, *table, reports) }),
	)
}

func groupsOf(only string) ([]string, error) {
	if only == "" {
		return nil, nil
	}
	groups := strings.Split(only, ",")
	for _, g := range groups {
		if !slices.Contains(eval.Groups(), g) {
			return nil, fmt.Errorf("-only: there is no part %q", g)
		}
	}
	return groups, nil
}

func write(path string, fn func(io.Writer) error) error {
	switch path {
	case "":
		return nil
	case "-":
		return fn(os.Stdout)
	}
	var b bytes.Buffer
	if err := fn(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// merged writes the tables into the text that the file holds already.
func merged(w io.Writer, path string, reports []*eval.Report) error {
	var b strings.Builder
	if err := eval.WriteTable(&b, reports); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = io.WriteString(w, eval.Merge(string(text), b.String()))
	return err
}
