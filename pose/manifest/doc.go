// Package manifest reads the manifest of a pose model: the file pose.json that lies beside a model's file and says what the file
// itself does not: which family it is of and so how to read its outputs, how a picture becomes its input, which points it gives, where
// it comes from and under which licence, and the sum that its bytes must have.
//
// A manifest says only what differs from its family's usual form; [Parse] fills in the rest, so that a [Manifest] that came from here is
// complete and valid. Pure Go, nothing is opened but the manifest.
package manifest
