package manifest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/pose"
)

// Bounds of what a manifest may claim.
const (
	maxSide    = 4096
	maxPoints  = 255
	maxPadding = 4
	maxSplit   = 16
	maxText    = 200
)

// nameForm is the form of a model's name.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// ValidName reports whether a model may have this name.
func ValidName(name string) bool { return nameForm.MatchString(name) }

// Validate reports all faults of the manifest at once, each with the field's name and what it should be.
func (m Manifest) Validate() error {
	var f faults
	f.check(m.Schema == Schema, "schema: %q is not %q", m.Schema, Schema)
	f.check(ValidName(m.Name), "name: %q is not made of lower-case letters, digits, dots, dashes and underscores (at most 64)", m.Name)
	f.check(m.Version != "" && len(m.Version) <= maxText, "version: missing, or longer than %d bytes", maxText)
	_, known := families[m.Family]
	f.check(known, "family: %q is none of %v", m.Family, Families())
	f.check(m.File != "" && m.File == filepath.Base(m.File) && m.File != "." && m.File != "..",
		"file: %q is not the plain name of a file beside the manifest", m.File)
	sum, err := hex.DecodeString(m.SHA256)
	f.check(err == nil && len(sum) == 32 && m.SHA256 == strings.ToLower(m.SHA256), "sha256: %q is not 64 lower-case hex digits", m.SHA256)
	f.check(m.Licence != "" && len(m.Licence) <= maxText, "licence: missing; say under which licence the weights are used")
	f.skeleton(m)
	if known {
		f.input(m.Input)
		f.resize(m)
		f.outputs(m)
		f.scores(m)
	}
	return errors.Join(f...)
}

// faults collects what is wrong.
type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func (f *faults) input(in Input) {
	side := func(v int) bool { return v >= 0 && v <= maxSide }
	f.check(side(in.Width) && side(in.Height), "input: %d×%d is not within %d×%d", in.Width, in.Height, maxSide, maxSide)
	f.check((in.Width == 0) == (in.Height == 0), "input: width and height belong together")
	f.check(in.Layout == NCHW || in.Layout == NHWC, "input.layout: %q is neither nchw nor nhwc", in.Layout)
	f.check(in.Channels == RGB || in.Channels == BGR, "input.channels: %q is neither rgb nor bgr", in.Channels)
	f.check(usable(in.Scale) && in.Scale > 0, "input.scale: %v is not a positive number", in.Scale)
	f.check(len(in.Mean) == 3 && !slices.ContainsFunc(in.Mean, func(v float64) bool { return !usable(v) }), "input.mean: not three numbers")
	f.check(len(in.Std) == 3 && !slices.ContainsFunc(in.Std, func(v float64) bool { return !usable(v) || v <= 0 }),
		"input.std: not three positive numbers")
}

func (f *faults) resize(m Manifest) {
	r, modes := m.Resize, families[m.Family].modes
	f.check(slices.Contains(modes, r.Mode), "resize.mode: %q is none of %v, which %s models take", r.Mode, modes, m.Family)
	if r.Mode == Crop {
		f.check(r.Padding >= 1 && r.Padding <= maxPadding, "resize.padding: %v is not in 1..%d", r.Padding, maxPadding)
	} else {
		f.check(r.Padding == 0, "resize.padding: only crops have one")
	}
	f.check(r.Fill != nil && *r.Fill >= 0 && *r.Fill <= 255, "resize.fill: not in 0..255")
}

func (f *faults) outputs(m Manifest) {
	roles := m.Family.Roles()
	for _, role := range sortedKeys(m.Outputs) {
		f.check(slices.Contains(roles, role), "outputs: %s models have no %q, only %v", m.Family, role, roles)
	}
}

func (f *faults) scores(m Manifest) {
	share := func(v float64) bool { return v > 0 && v < 1 }
	f.check(share(m.Scores.Person), "scores.person: %v is not between 0 and 1", m.Scores.Person)
	f.check(share(m.Scores.Point), "scores.point: %v is not between 0 and 1", m.Scores.Point)
	f.check(share(m.Scores.Overlap), "scores.overlap: %v is not between 0 and 1", m.Scores.Overlap)
	if m.Family == RTMPose {
		f.check(m.Split >= 1 && m.Split <= maxSplit, "split: %v is not in 1..%d", m.Split, maxSplit)
	} else {
		f.check(m.Split == 0, "split: only %s models have one", RTMPose)
	}
}

func (f *faults) skeleton(m Manifest) {
	s := m.Skeleton
	n := len(s.Keypoints)
	f.check(s.Name != "" && len(s.Name) <= maxText, "skeleton: missing, or without a name")
	f.check(n > 0 && n <= maxPoints, "skeleton: %d points are not in 1..%d", n, maxPoints)
	for _, known := range pose.Skeletons() {
		f.check(s.Name != known.Name || slices.Equal(s.Keypoints, known.Keypoints), "skeleton: the name %q belongs to another list of points", s.Name)
	}
	seen := map[string]bool{}
	for _, k := range s.Keypoints {
		f.check(ValidName(k) && !seen[k], "skeleton.keypoints: %q is not a name as left_wrist is, or is there twice", k)
		seen[k] = true
	}
	for _, e := range s.Edges {
		f.check(min(e[0], e[1]) >= 0 && max(e[0], e[1]) < n && e[0] != e[1], "skeleton.edges: %v does not join two of %d points", e, n)
	}
}

func usable(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
