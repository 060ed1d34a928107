package main

import (
	"errors"
	"fmt"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose/blazepose"
)

// modelsCommand lists or checks the models.
type modelsCommand struct {
	Action string `arg:"" optional:"" enum:"list,check" default:"list" help:"list: names, sums and where they are; check: compare all files with their sums and load each model."`
	engineFlags
}

// Run does the action.
func (c *modelsCommand) Run(s streams) error {
	if c.Action == "check" {
		return c.check(s)
	}
	return c.list(s)
}

func (c *modelsCommand) list(s streams) error {
	dir, err := c.dir()
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

func (c *modelsCommand) dir() (*assets.Dir, error) {
	if c.Assets != "" {
		return assets.Open(c.Assets)
	}
	return assets.Find()
}

func (c *modelsCommand) check(s streams) error {
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
