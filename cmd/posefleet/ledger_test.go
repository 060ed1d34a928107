package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/control/study"
)

// The figures of a day come out by the command as the model has them, and what was measured before is shown from its file.
func TestLedgerStudy(t *testing.T) {
	t.Parallel()

	code, stdout, stderr := call(nil, "ledger", "study")
	for _, figure := range []string{"15,251 effects", "6250/5599/8750/6501/6250", "451 duplicate"} {
		if code != 0 || !strings.Contains(stdout, figure) {
			t.Errorf("exit %d %s, no %s in\n%s", code, stderr, figure, stdout)
		}
	}

	measured := filepath.Join("..", "..", "docs", "ledger", "measured.json")
	if code, stdout, stderr = call(nil, "ledger", "study", "--json", "--from="+measured); code != 0 {
		t.Fatalf("exit %d %s", code, stderr)
	}

	var d study.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || len(d.Real) != len(study.Days()) || len(d.Measured) != len(study.Days()) {
		t.Errorf("%v; days with real repeats %d, measured %d", err, len(d.Real), len(d.Measured))
	}
}
