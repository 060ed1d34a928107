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

	// Measured are the days by name, failure-free and failure window.
	Measured map[string][]Measured `json:"measured,omitempty"`
}

// ReadMeasured reads the measured days of a document.
func ReadMeasured(path string) (map[string][]Measured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what was measured: %w", err)
	}
	var d struct{ Measured map[string][]Measured }
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read what was measured in %s: %w", path, err)
	}
	if len(d.Measured[dayQuiet]) == 0 || len(d.Measured[dayWindow]) == 0 {
		return nil, fmt.Errorf("nothing was measured in %s", path)
	}

	return d.Measured, nil
}

// WritePlots writes the plots and the figures that they show into a folder.
func (d *Document) WritePlots(dir string) error {
	figures, err := json.MarshalIndent(map[string]any{"measured": d.Measured}, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{MeasuredFile: string(figures) + "\n"}
	for _, p := range Plots(d.Report, d.Measured) {
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
