package pose

import (
	"cmp"
	"math"
	"slices"
)

// Observation is one person found in one frame, before it is known who it is.
type Observation struct {
	// From is the id of the live track whose search region gave the person; 0 if the detector found it.
	From  int
	Score float64
	// Trust is how much this looks like a person, 0..1, where Score alone does not tell; the tracker does not use it.
	Trust float64
	Box   Box
	// Keypoints in any one skeleton, the same for all calls.
	Keypoints []Keypoint
	// Look describes the person's appearance: a histogram that sums to 1. It may be nil.
	Look []float32
}

// Tracker gives people ids that stay the same over a clip: in motion, when they leave and return, and when they cross.
//
//	(new) ──seen──▶ live ──not seen──▶ lost ──found again──▶ live
//	                  └────Cut────▶ (ended) ◀────Cut────┘
//
// A live track is followed by its search region. An observation of a region that jumped too far for the time that went by, or
// that shows the same body as another one, is not believed; it is matched afresh. Observations that belong to no live track are
// matched to lost ones by place, size and look, cheapest first; what is left is a new person. It is not safe for concurrent use.
type Tracker struct {
	last   int // highest id given so far
	tracks []*track
	same   map[int]int
}

// track is one person between two cuts.
type track struct {
	id   int
	live bool
	// seen is the time of the last observation in ms; box, points and look are of then.
	seen   float64
	box    Box
	points []Keypoint
	look   []float32
	// vx, vy is the smoothed speed of the centre in pixels per ms.
	vx, vy float64
	frames int
	// born is the time of the first observation.
	born float64
}

// Bounds of the tracker. Distances are in body lengths: the longer side of the box.
const (
	// jumpBase and jumpSpeed bound the way that a body goes between two frames: base + speed × seconds.
	jumpBase, jumpSpeed = 0.25, 3.0
	// sameBody is the mean distance of joints under which two observations are one body, sameOverlap the overlap of boxes.
	sameBody, sameOverlap = 0.12, 0.9
	// relinkBase, relinkSpeed and relinkMax bound where a lost person may turn up again.
	relinkBase, relinkSpeed, relinkMax = 0.6, 1.5, 4.0
	// sizeRatio bounds how much larger or smaller a person may come back.
	sizeRatio = 2.2
	// lookAlike is the histogram overlap that people found again after longGap ms must have, lookUnlike one that rules
	// them out after any time.
	lookAlike, lookUnlike, longGap = 0.55, 0.3, 1500
	// adoptFrom and adoptTo are the numbers of frames between which somebody new may turn out to be somebody who was lost: who comes in at
	// the edge shows too little of the clothes at first.
	adoptFrom, adoptTo = 3, 15
	// maxLost is how many lost people are remembered at most, so that memory and time do not grow with the clip: the one who was lost first is
	// forgotten first.
	maxLost = 64
	// lookWeight weighs unlikeness against distance.
	lookWeight = 1.5
	// lookRate and speedRate are the shares of a new value in the smoothed ones.
	lookRate, speedRate = 0.2, 0.5
)

// Live are the ids of the people seen in the last frame, oldest first.
func (t *Tracker) Live() []int {
	var ids []int
	for _, k := range t.tracks {
		if k.live {
			ids = append(ids, k.id)
		}
	}
	return ids
}

// Cut ends all tracks: the next frame shows another scene.
func (t *Tracker) Cut() { t.tracks = nil }

// Update takes the observations of the frame at the given time in ms and returns the id of each; 0 means that the observation
// shows a body that another one shows better, and is to be dropped. Tracks without an observation are lost afterwards.
func (t *Tracker) Update(at float64, seen []Observation) []int {
	ids := make([]int, len(seen))
	dropped := t.duplicates(at, seen)
	for i, o := range seen {
		if k := t.find(o.From); k != nil && k.live && !dropped[i] && !k.jumped(at, o) {
			ids[i] = k.id
		}
	}
	var free []int
	for i := range seen {
		if ids[i] == 0 && !dropped[i] {
			free = append(free, i)
		}
	}
	t.rematch(at, seen, free, ids)
	t.commit(at, seen, ids)
	t.adopt(ids)
	t.forget()
	return ids
}

// forget keeps the list of lost people short.
func (t *Tracker) forget() {
	first, lost := -1, 0
	for i, k := range t.tracks {
		if k.live {
			continue
		}
		if lost++; first < 0 || k.seen < t.tracks[first].seen {
			first = i
		}
	}
	if lost > maxLost {
		t.tracks = slices.Delete(t.tracks, first, first+1)
		t.forget()
	}
}

// Same tells of whom the people were taken for somebody new in their first frames: the key is the id of then, the value the right one.
func (t *Tracker) Same() map[int]int { return t.same }

// adopt gives new people, once their looks are known, the id of somebody who was lost long before they came and looks alike.
func (t *Tracker) adopt(ids []int) {
	for _, k := range slices.Clone(t.tracks) {
		if !k.live || k.frames < adoptFrom || k.frames > adoptTo {
			continue
		}
		best, most := (*track)(nil), lookAlike
		for _, l := range t.tracks {
			ratio := math.Max(1, k.box.Side()) / math.Max(1, l.box.Side())
			if l.live || l.frames <= adoptTo || k.born-l.seen < longGap || ratio > sizeRatio || ratio < 1/sizeRatio {
				continue
			}
			if like, known := likeness(l.look, k.look); known && like >= most {
				best, most = l, like
			}
		}
		if best == nil {
			continue
		}
		if t.same == nil {
			t.same = map[int]int{}
		}
		t.same[k.id] = best.id
		if i := slices.Index(ids, k.id); i >= 0 {
			ids[i] = best.id
		}
		k.id, k.frames, k.born = best.id, k.frames+best.frames, best.born
		t.tracks = slices.DeleteFunc(t.tracks, func(l *track) bool { return l == best })
	}
}

// duplicates marks the observations that show a body which another one shows better.
func (t *Tracker) duplicates(at float64, seen []Observation) []bool {
	dropped := make([]bool, len(seen))
	for i := range seen {
		for j := range i {
			if dropped[i] || dropped[j] || !SameBody(seen[i], seen[j]) {
				continue
			}
			if t.worse(at, seen[i], seen[j]) {
				dropped[i] = true
			} else {
				dropped[j] = true
			}
		}
	}
	return dropped
}

// worse reports whether a has the weaker claim to a body than b: a find of the detector yields to a track, of two tracks the
// one yields whose past fits less.
func (t *Tracker) worse(at float64, a, b Observation) bool {
	ta, tb := t.find(a.From), t.find(b.From)
	switch {
	case ta == nil && tb == nil:
		return a.Score <= b.Score
	case ta == nil || tb == nil:
		return ta == nil
	}
	return ta.misfit(at, a) >= tb.misfit(at, b)
}

// rematch gives the free observations to tracks that nobody claimed, cheapest pair first, and new ids to the rest.
func (t *Tracker) rematch(at float64, seen []Observation, free []int, ids []int) {
	type pair struct {
		cost float64
		obs  int
		k    *track
	}
	var pairs []pair
	for _, i := range free {
		for _, k := range t.tracks {
			if cost, ok := k.relink(at, seen[i]); ok && !slices.Contains(ids, k.id) {
				pairs = append(pairs, pair{cost, i, k})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.cost, b.cost) })
	for _, p := range pairs {
		if ids[p.obs] == 0 && !slices.Contains(ids, p.k.id) {
			ids[p.obs] = p.k.id
		}
	}
	for _, i := range free {
		if ids[i] == 0 {
			t.last++
			ids[i] = t.last
			t.tracks = append(t.tracks, &track{id: t.last})
		}
	}
}

func (t *Tracker) commit(at float64, seen []Observation, ids []int) {
	for _, k := range t.tracks {
		i := slices.Index(ids, k.id)
		if i < 0 {
			k.live = false
			continue
		}
		k.take(at, seen[i])
	}
}

func (t *Tracker) find(id int) *track {
	for _, k := range t.tracks {
		if k.id == id {
			return k
		}
	}
	return nil
}

func (k *track) take(at float64, o Observation) {
	if dt := at - k.seen; k.live && dt > 0 {
		x0, y0 := k.box.Centre()
		x1, y1 := o.Box.Centre()
		k.vx += speedRate * ((x1-x0)/dt - k.vx)
		k.vy += speedRate * ((y1-y0)/dt - k.vy)
	} else if !k.live {
		k.vx, k.vy = 0, 0
	}
	k.live, k.seen, k.box, k.points = true, at, o.Box, o.Keypoints
	if k.frames == 0 {
		k.born = at
	}
	k.frames++
	k.look = blend(k.look, o.Look)
}

// offset is how far o is from where the track should be now, in body lengths. Speed counts for half a second at most.
func (k *track) offset(at float64, o Observation) float64 {
	dt := math.Min(at-k.seen, 500)
	x, y := k.box.Centre()
	ox, oy := o.Box.Centre()
	size := math.Max(1, math.Max(k.box.Side(), o.Box.Side()))
	return math.Min(math.Hypot(ox-x, oy-y), math.Hypot(ox-x-k.vx*dt, oy-y-k.vy*dt)) / size
}

func (k *track) jumped(at float64, o Observation) bool {
	return k.offset(at, o) > jumpBase+jumpSpeed*(at-k.seen)/1000
}

// misfit says how badly o goes on with the track.
func (k *track) misfit(at float64, o Observation) float64 {
	like, known := likeness(k.look, o.Look)
	if !known {
		like = 1
	}
	size := math.Abs(math.Log(math.Max(1, o.Box.Side()) / math.Max(1, k.box.Side())))
	return k.offset(at, o) + size + lookWeight*(1-like)
}

// relink is the cost of taking o for the return of this person, and whether that may be.
func (k *track) relink(at float64, o Observation) (float64, bool) {
	if k.frames == 0 {
		return 0, false
	}
	gap := at - k.seen
	reach := math.Min(relinkMax, relinkBase+relinkSpeed*gap/1000)
	offset := k.offset(at, o)
	ratio := math.Max(1, o.Box.Side()) / math.Max(1, k.box.Side())
	like, known := likeness(k.look, o.Look)
	switch {
	case gap < longGap && (offset > reach || ratio > sizeRatio || ratio < 1/sizeRatio):
		return 0, false
	case gap >= longGap && known && like < lookAlike:
		return 0, false
	case gap >= longGap && !known && offset > reach:
		return 0, false
	case known && like < lookUnlike:
		return 0, false
	}
	return k.misfit(at, o), true
}

// SameBody reports whether two observations of one frame show one body.
func SameBody(a, b Observation) bool {
	if a.Box.IoU(b.Box) > sameOverlap {
		return true
	}
	return Apart(a, b) < sameBody
}

// Apart is the mean distance of the joints of two observations in body lengths of the smaller one; infinite where fewer than four joints are
// in both.
func Apart(a, b Observation) float64 {
	sum, n := 0.0, 0
	for i := range min(len(a.Keypoints), len(b.Keypoints)) {
		p, q := a.Keypoints[i], b.Keypoints[i]
		if p.usable() && q.usable() {
			sum += math.Hypot(p.X-q.X, p.Y-q.Y)
			n++
		}
	}
	if n < 4 {
		return math.Inf(1)
	}
	return sum / float64(n) / math.Max(1, math.Min(a.Box.Side(), b.Box.Side()))
}

// likeness is the overlap of two histograms, 0..1, and whether both are known.
func likeness(a, b []float32) (float64, bool) {
	if len(a) == 0 || len(a) != len(b) {
		return 0, false
	}
	sum := 0.0
	for i := range a {
		sum += float64(min(a[i], b[i]))
	}
	return sum, true
}

func blend(old, new []float32) []float32 {
	if len(old) != len(new) {
		if len(new) == 0 {
			return old
		}
		return slices.Clone(new)
	}
	for i := range old {
		old[i] += lookRate * (new[i] - old[i])
	}
	return old
}
