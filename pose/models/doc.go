// Package models is the catalogue of the pose models that this machine can run: the shipped ones, and those that a user put into a folder
// with a manifest beside each. It finds a model by name or path, checks its bytes against the sum that it should have, loads it, and
// says of one that cannot be used what is wrong with it.
package models
