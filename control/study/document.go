package study

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// MeasuredFile is the name of the file with measured days beside their plots.
const MeasuredFile = "measured.json"

// Document is the study with what was measured, if anything was.
type Document struct {
	Report

	// Measured are the model's days in real databases, Real those whose repeats are real, both by the name of the day.
	Measured map[string][]Measured `json:"measured,omitempty"`
	Real     map[string][]Real     `json:"real,omitempty"`
}

// Read reads the measured days of a document and reckons the rest.
func Read(path string) (Document, error) {
	out := Document{Report: New()}
	text, err := os.ReadFile(path)
	if err != nil {
		return out, fmt.Errorf("read what was measured: %w", err)
	}
	var d struct {
		Measured map[string][]Measured
		Real     map[string][]Real
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return out, fmt.Errorf("read what was measured in %s: %w", path, err)
	}
	out.Measured, out.Real = d.Measured, d.Real
	if !both(out.Measured) && !both(out.Real) {
		return out, fmt.Errorf("nothing was measured in %s", path)
	}

	return out, nil
}

func both[T any](days map[string][]T) bool {
	return len(days[DayQuiet]) > 0 && len(days[DayWindow]) > 0
}

// WritePlots writes the plots and the figures that they show into a folder.
func (d *Document) WritePlots(dir string) error {
	figures, err := json.MarshalIndent(map[string]any{"measured": d.Measured, "real": d.Real}, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{MeasuredFile: string(figures) + "\n"}
	for _, p := range d.Plots() {
		files[p.Name+".svg"] = p.SVG()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write plots: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write plots: %w", err)
		}
	}

	return nil
}
