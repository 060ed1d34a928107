//go:build !unix

package claimcheck

// freeDisk is not known here; a full disk is then found by writing.
func freeDisk(string) (int64, bool) { return 0, false }
