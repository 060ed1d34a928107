package main

import (
	"errors"
	"fmt"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// modelsCommand lists or checks the models.
type modelsCommand struct {
	List  modelsList  `cmd:"" default:"1" help:"List the models and where they are."`
	Check modelsCheck `cmd:"" help:"Compare all files with their sums and run each model once."`
}

type modelsList struct{}

// Run prints a line per model.
func (modelsList) Run(s streams) error {
	dir, err := assets.Find()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "assets: %s\n", dir.Path)
	for _, m := range blazepose.Models() {
		sum, ok := dir.SHA256(assets.ModelFile("pose_landmark_"+m, false))
		if !ok {
			sum = "missing"
		}
		fmt.Fprintf(s.out, "%-6s %-16s %s\n", m, "blazepose-"+m, sum)
	}
	return nil
}

type modelsCheck struct{ engineFlags }

// Run opens every model, which compares its files with their sums.
func (c *modelsCheck) Run(s streams) error {
	var errs []error
	for _, m := range blazepose.Models() {
		e, err := blazepose.Open(blazepose.Config{Assets: c.Assets, Model: m, Engine: c.Engine, Threads: c.Threads})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(s.out, "%-6s ok, engine %s\n", m, e.Engine())
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}
