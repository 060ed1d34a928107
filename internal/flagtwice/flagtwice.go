// Package flagtwice refuses command lines that give a flag more than once: the parser takes the last one in silence, and nobody knows which
// was meant.
package flagtwice

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// Check answers an error that names the first flag that was given twice, unless it is one that collects values.
func Check(parsed *kong.Context) error {
	seen := map[*kong.Flag]bool{}

	for _, p := range parsed.Path {
		if p.Flag == nil || p.Resolved {
			continue
		}

		if seen[p.Flag] && !p.Flag.IsCumulative() {
			return fmt.Errorf("--%s is given twice", p.Flag.Name)
		}

		seen[p.Flag] = true
	}

	return nil
}
