//go:build !unledgered

package store

// ledgerSuppresses: a known key stops the effect. The build tag unledgered takes that out, for the tests that show what it is for.
const ledgerSuppresses = true
