package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose/models"
)

// modelsCommand lists, checks or explains models.
type modelsCommand struct {
	Action string   `arg:"" optional:"" enum:"list,check,explain" default:"list" help:"list: names, sums and where they are; check: compare each model's file with its sum, load it and run it on an empty picture; explain: all that is known of a model, and why it can't be used if it can't."`
	Names  []string `arg:"" optional:"" name:"model" help:"Names or paths. Default: all."`
	engineFlags
}

// errModels says that a model cannot be used; the reasons have been printed.
var errModels = errors.New("not all models can be used")

// Run does the action.
func (c *modelsCommand) Run(ctx context.Context, s streams) error {
	catalogue, err := models.New(models.Config{Assets: c.Assets, Dir: c.Models, Engine: c.Engine, Threads: c.Threads})
	if err != nil {
		return usageError{err}
	}
	entries := catalogue.Entries()
	if len(c.Names) > 0 {
		entries = nil
		for _, name := range c.Names {
			e, err := catalogue.Locate(name)
			if err != nil {
				return usageError{err}
			}
			entries = append(entries, e)
		}
	}
	if c.Action == "list" {
		return c.list(s, entries)
	}
	bad := 0
	for i, e := range entries {
		report := checkModel
		if c.Action == "explain" {
			report = explainModel
			if i > 0 {
				fmt.Fprintln(s.out)
			}
		}
		if !report(ctx, s, catalogue, e) {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d", errModels, bad, len(entries))
	}
	return nil
}

func (c *modelsCommand) list(s streams, entries []models.Entry) error {
	if dir, err := c.dir(); err == nil {
		fmt.Fprintf(s.out, "assets: %s\n", dir.Path)
	} else {
		fmt.Fprintf(s.out, "assets: %s\n", reason(err))
	}
	if c.Models != "" {
		fmt.Fprintf(s.out, "models: %s\n", c.Models)
	}
	width := 5
	for _, e := range entries {
		width = max(width, len(e.Name))
	}
	for _, e := range entries {
		sum := e.SHA256
		if sum == "" {
			sum = "sum unknown"
		}
		fmt.Fprintf(s.out, "%-*s  %-13s  %-11s  %s\n", width, e.Name, e.Family, e.Skeleton.Name, sum)
		if e.Err != nil {
			fmt.Fprintf(s.out, "%-*s  can't be used: %s\n", width, "", reason(e.Err))
		}
	}
	return nil
}

func (c *modelsCommand) dir() (*assets.Dir, error) {
	if c.Assets != "" {
		return assets.Open(c.Assets)
	}
	return assets.Find()
}

// checkModel prints one line about a model, which tells whether it runs here.
func checkModel(ctx context.Context, s streams, catalogue *models.Catalogue, e models.Entry) bool {
	m, trial, err := try(ctx, catalogue, e)
	if err != nil {
		fmt.Fprintf(s.out, "%s: can't be used: %s\n", e.Name, reason(err))
		return false
	}
	fmt.Fprintf(s.out, "%s: ok, %s %s, %.1f ms, %s to %s%s\n", e.Name, m.Info.Runtime.Name, m.Info.Runtime.Version, milliseconds(trial.Took),
		join(m.Inputs), join(m.Outputs), sighting(trial))
	return true
}

// try opens a model and runs it on an empty picture.
func try(ctx context.Context, catalogue *models.Catalogue, e models.Entry) (m *models.Model, t models.Trial, err error) {
	m, err = catalogue.Open(e)
	if err != nil {
		return nil, t, err
	}
	t, err = m.Try(ctx)
	return m, t, errors.Join(err, m.Close())
}

// sighting warns of a model that sees people where none are.
func sighting(t models.Trial) string {
	if t.People == 0 {
		return ""
	}
	return fmt.Sprintf("; sees %d people in an empty picture: are the scores' bounds right?", t.People)
}

// explainModel prints all that is known of a model.
func explainModel(ctx context.Context, s streams, catalogue *models.Catalogue, e models.Entry) bool {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(s.out, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("name", "%s", e.Name)
	line("family", "%s", e.Family)
	line("file", "%s", e.Path)
	line("sha256", "%s", e.SHA256)
	line("licence", "%s", e.Licence)
	line("skeleton", "%s: %s", e.Skeleton.Name, strings.Join(e.Skeleton.Keypoints, " "))
	if !e.Shipped() {
		explainManifest(line, e)
	}
	m, trial, err := try(ctx, catalogue, e)
	if err != nil {
		line("usable", "no: %s", reason(err))
		return false
	}
	line("inputs", "%s", join(m.Inputs))
	line("outputs", "%s", join(m.Outputs))
	if d := m.Info.Detector; d.Name != "" {
		line("detector", "%s %s %s", d.Name, d.Version, d.SHA256)
	}
	line("runtime", "%s %s %s", m.Info.Runtime.Name, m.Info.Runtime.Version, m.Info.Runtime.SHA256)
	line("usable", "yes: %.1f ms for an empty picture%s", milliseconds(trial.Took), sighting(trial))
	return true
}

// explainManifest prints what the manifest says, with what its family adds.
func explainManifest(line func(key, format string, args ...any), e models.Entry) {
	m := e.Manifest
	line("manifest", "%s", e.ManifestPath)
	line("version", "%s", m.Version)
	if m.Source != "" {
		line("source", "%s", m.Source)
	}
	if e.Err != nil {
		return
	}
	for _, part := range []struct {
		key   string
		value any
	}{{"input", m.Input}, {"resize", m.Resize}, {"scores", m.Scores}} {
		if text, err := json.Marshal(part.value); err == nil {
			line(part.key, "%s", text)
		}
	}
}

func join[T fmt.Stringer](list []T) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = v.String()
	}
	return strings.Join(text, ", ")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// reason is an error in one line.
func reason(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
