//go:build !interleavings

package fleet

// interleavings is how many of them the promise is held against: a few with every run of the tests, which is slow under the race detector,
// and all with the tag interleavings.
const interleavings = 400
