// Package signal puts smoothed points beside raw ones. It is pure Go and works on a stream of frames with bounded memory.
//
//	frames ─▶ blocks, each with a margin of the frames around it ─▶ per person: left and right (swap.go) ─▶ faults (outlier.go)
//	       ─▶ gaps (gap.go) ─▶ smoothing (butterworth.go) ─▶ the same frames, with Person.Smooth and Frame.Filled
//
// All of it is done on real seconds: the frames' own times, of slow motion stretched back to what the camera saw. Cut-offs and
// gaps therefore mean the same at 30 and at 240 frames a second, at a constant and at a variable rate. Nothing crosses a break: a
// cut of the scene or a place where the clip's speed changes. A block's margin is longer than anything that a filter remembers,
// so that the size of blocks does not show in the result.
package signal
