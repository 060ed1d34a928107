package main

import (
	"encoding/json"

	"github.com/posefleet/posefleet/control/study"
)

// ledgerCmd is "posefleet ledger …".
type ledgerCmd struct {
	Study ledgerStudyCmd `cmd:"" help:"What an idempotency ledger prevents and costs, reckoned: key scopes on a quiet day and in a failure window."`
}

// ledgerStudyCmd is "posefleet ledger study".
type ledgerStudyCmd struct {
	JSON bool `help:"For scripts."`
}

// Run prints the study.
func (c *ledgerStudyCmd) Run(h *host) error {
	report := study.New()
	if !c.JSON {
		return report.Write(h.stdout)
	}
	out := json.NewEncoder(h.stdout)
	out.SetIndent("", "  ")
	return out.Encode(report)
}
