// Package arch holds the repository's shape by tests: which package may import which, what heavy things must not come along, how large
// functions and files may be, that everything exported is explained, and that nothing of one machine slips into the sources.
package arch
