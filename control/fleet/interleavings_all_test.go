//go:build interleavings

package fleet

const interleavings = 10_000
