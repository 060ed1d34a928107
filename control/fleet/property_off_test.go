//go:build unreread || unsheltered

package fleet

import (
	"strings"
	"testing"
)

// With a guard taken out, the same interleavings show what it keeps away.
func TestNoGuardBreaksPromise(t *testing.T) {
	t.Parallel()
	harm := "and left" // work alone
	if !shelters {
		harm = "scales in"
	}
	seed, broken := brokenStory(t, 0, interleavings)
	text := strings.Join(broken, "; ")
	if !strings.Contains(text, harm) {
		t.Fatalf("interleaving %d: %q; the guard seems to be there still", seed, text)
	}
	t.Logf("interleaving %d: %s", seed, text)
}
