package eval

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/pose"
)

// bodyShare is the part of its box that an average body fills; COCO's measure wants the area of the body.
const bodyShare = 0.53

// spread is COCO's per-point standard deviation of labels, in parts of the square root of the area.
func spread(name string) float64 {
	_, part, ok := strings.Cut(name, "_")
	if !ok {
		part = name
	}
	return map[string]float64{
		"nose": .026, "eye": .025, "ear": .035, "shoulder": .079, "elbow": .072, "wrist": .062, "hip": .107, "knee": .087, "ankle": .089,
	}[part]
}

// pointer finds points by name; false where there is none.
type pointer func(name string) (pose.Keypoint, bool)

// of looks points of a person up by name.
func of(p pose.Person) pointer {
	skeleton := pose.BlazePose33()
	return func(name string) (pose.Keypoint, bool) {
		i := skeleton.Index(name)
		if i < 0 || i >= len(p.Keypoints) || !p.Keypoints[i].Found {
			return pose.Keypoint{}, false
		}
		return p.Keypoints[i], true
	}
}

// area is that of the labelled body in square pixels.
func (p Person) area() float64 { return bodyShare * p.Box.W * p.Box.H }

// OKS is the object keypoint similarity of points to this person, 0..1.
func (p Person) OKS(at pointer) float64 {
	sum, n := 0.0, 0
	for name, want := range p.Points {
		s := spread(name)
		if s == 0 {
			continue // a point that COCO does not know
		}
		n++
		if q, ok := at(name); ok {
			d := math.Hypot(q.X-want.X, q.Y-want.Y)
			sum += math.Exp(-d * d / (8 * p.area() * s * s))
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// torso is the longer diagonal of the trunk, and false where its points are not labelled.
func (p Person) torso() (float64, bool) {
	diagonal := func(a, b string) float64 {
		q, ok1 := p.Points[a]
		r, ok2 := p.Points[b]
		if !ok1 || !ok2 {
			return 0
		}
		return math.Hypot(q.X-r.X, q.Y-r.Y)
	}
	d := max(diagonal("left_shoulder", "right_hip"), diagonal("right_shoulder", "left_hip"))
	return d, d > 0
}

// PCK counts the labelled points and how many of ours lie within the part of the torso.
func (p Person) PCK(at pointer, part float64) (right, all int) {
	torso, ok := p.torso()
	if !ok {
		return 0, 0
	}
	for name, want := range p.Points {
		if spread(name) == 0 {
			continue
		}
		all++
		if q, ok := at(name); ok && math.Hypot(q.X-want.X, q.Y-want.Y) <= part*torso {
			right++
		}
	}
	return right, all
}

// match pairs labelled people with ours, best OKS first: the result holds the index of ours for each, or -1.
func match(truth []Person, ours []pose.Person) []int {
	type pair struct {
		t, o  int
		worth float64
	}
	var pairs []pair
	for t, p := range truth {
		for o, q := range ours {
			oks, overlap := p.OKS(of(q)), p.Box.IoU(q.Box)
			if worth := oks + 0.01*overlap; oks > 0.05 || overlap > 0.05 {
				pairs = append(pairs, pair{t, o, worth})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.worth, a.worth) })
	out, taken := slices.Repeat([]int{-1}, len(truth)), make([]bool, len(ours))
	for _, p := range pairs {
		if out[p.t] < 0 && !taken[p.o] {
			out[p.t], taken[p.o] = p.o, true
		}
	}
	return out
}

// found reports whether q shows the person.
func (p Person) found(q pose.Person) bool { return p.OKS(of(q)) >= 0.5 || p.Box.IoU(q.Box) >= 0.5 }

// auc is the probability that a right one has a higher score than a wrong one; NaN where one kind is absent.
func auc(right, wrong []float64) float64 {
	sum := 0.0
	for _, r := range right {
		for _, w := range wrong {
			switch {
			case r > w:
				sum++
			case r == w:
				sum += 0.5
			}
		}
	}
	return sum / float64(len(right)*len(wrong))
}

// median of values; NaN of none. It sorts them.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
