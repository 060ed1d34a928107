package arch_test

import (
	"go/ast"
	"testing"
)

// TestDurationsInLogs: a duration in a log is a whole number of milliseconds, and its name ends in _ms. slog.Duration would be nanoseconds in
// a JSON log and a Go literal in a text log.
func TestDurationsInLogs(t *testing.T) {
	t.Parallel()

	s := load(t)
	for _, f := range s.files {
		if f.test {
			continue
		}

		ast.Inspect(f.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Duration" {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "slog" {
					t.Errorf("%s: slog.Duration, want slog.Int64 of milliseconds", s.fset.Position(n.Pos()))
				}
			}

			return true
		})
	}
}
