// Package synth draws moving people whose every joint is known: clips with exact truth at any size, rate and time pattern.
//
// A [Scene] holds a backdrop and [Actor]s. An actor says for each time where it stands and in which [Stance]; its body is made of balls
// that are shaded and sorted by depth, so that bodies hide each other as they should. The camera looks along -z and has no perspective:
// a joint's place in the picture is its x and y.
//
// # Coordinates
//
// Pixels of the picture, the centre of the top left pixel at (0, 0), x to the right and y down. Left and right are the person's own. Angles
// are in radians, times in seconds.
package synth
