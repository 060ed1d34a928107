package extract

import (
	"context"

	"github.com/posefleet/posefleet/pose/blazepose"
)

// Whom the detector finds, the landmark model looks at again and again, each time in the region that follows from the look before, until it
// stays with what it sees:
//
//	find ─▶ look ─▶ look ─▶ trusted? ─▶ warm: taken as it is
//	              ▲        │         └▶ cold: other first looks, larger and in the mirror; the clearest of all is taken
//	              └────────┘ while the looks get warmer
//
// Somebody who is seen badly is easily taken the wrong way round, and a grey level more or less decides it. Looks that follow from a wrong one
// do not mend that: each turns the region to what it took for true. So the others begin at the detector's guess again.
const (
	// fewLooks is how many looks a find gets that only fine tiles show, manyLooks one that a large region shows.
	fewLooks, manyLooks = 3, 5
	// doubt is the score by heat below which a new person is looked at in other ways too, and doubtRoom by how much the region is enlarged in
	// half of them.
	doubt, doubtRoom = 0.8, 1.1
)

// settle takes the landmarks of a region that the detector guessed. It is false where they are not to be trusted.
func (s *blazeScout) settle(ctx context.Context, pic *picture, f find) (blazepose.Landmarks, bool, error) {
	most := fewLooks
	if f.wide >= newDetection {
		most = manyLooks
	}
	l := looks{roi: f.ROI, at: s.plainly(ctx, pic)}
	for {
		last, err := l.next()
		n := len(l.seen)
		if err != nil || n == 1 && !(last.Presence >= newPresence) || !last.Next.Valid() {
			return last, false, err
		}
		switch {
		case n == 1:
		case trusted(f, l.seen[n-2], last):
			if last.Score >= doubt {
				return last, true, nil
			}
			best, err := s.clearest(ctx, pic, f, l.seen)
			return best, err == nil, err
		case last.Score <= l.seen[n-2].Score || n == most:
			return last, false, nil
		}
	}
}

// plainly looks at a region as it is.
func (s *blazeScout) plainly(ctx context.Context, pic *picture) at {
	return func(roi blazepose.ROI) (blazepose.Landmarks, error) {
		return s.estimator.Landmarks(ctx, pic.Picture, roi)
	}
}

// clearest is the clearest of the look that settled and of four that begin at the detector's guess: as it is and larger, plainly and in the
// mirror. The clearest of these is followed once.
func (s *blazeScout) clearest(ctx context.Context, pic *picture, f find, settled []blazepose.Landmarks) (blazepose.Landmarks, error) {
	last, plainly := settled[len(settled)-1], s.plainly(ctx, pic)
	mirrored := func(roi blazepose.ROI) (blazepose.Landmarks, error) {
		return s.estimator.Mirrored(ctx, pic.Picture, roi)
	}
	larger := f.ROI
	larger.Size *= doubtRoom
	best, way := settled[0], plainly
	for _, l := range []looks{{roi: f.ROI, at: mirrored}, {roi: larger, at: plainly}, {roi: larger, at: mirrored}} {
		lm, err := l.next()
		if err != nil {
			return last, err
		}
		if clearer(lm, best, last) {
			best, way = lm, l.at
		}
	}
	if !clearer(best, last, last) {
		return last, nil
	}
	next, err := way(best.Next)
	if err == nil && clearer(next, best, last) {
		best = next
	}
	return best, err
}

// clearer reports whether a look is a better one than another, at the person whom the last look shows.
func clearer(lm, than, last blazepose.Landmarks) bool {
	return lm.Presence >= newPresence && lm.Next.Valid() && clarity(lm) > clarity(than) && sameRegion(lm.Next, last.Next)
}

// clarity tells a right look at somebody from a wrong one. The heat of the joints does not tell front from back, that of the face does: the
// mean of both chose best on labelled people, as they are and spoilt by fog, dark, blur and glare.
func clarity(lm blazepose.Landmarks) float64 { return (lm.Heat + lm.Face) / 2 }

// looks are those of the landmark model at one person.
type looks struct {
	roi  blazepose.ROI // of the next one
	seen []blazepose.Landmarks
	at   at
}

// at is a way to look at a region.
type at func(blazepose.ROI) (blazepose.Landmarks, error)

func (l *looks) next() (blazepose.Landmarks, error) {
	lm, err := l.at(l.roi)
	if err == nil {
		l.seen, l.roi = append(l.seen, lm), lm.Next
	}
	return lm, err
}
