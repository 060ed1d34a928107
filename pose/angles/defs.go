package angles

import "github.com/posefleet/posefleet/pose"

// Kinds of angles.
const (
	kindJoint   = "joint"
	kindSegment = "segment"
)

// Frame rates that angles need, in frames per real second: arms are the fastest.
const (
	armRate, legRate = 25.0, 20.0
)

// bone is a part of an angle: from one place to another, each the middle of the named points.
type bone struct {
	from, to []string
	// share is the bone's length in parts of the body's height. 0: it may have any length in the picture.
	share float64
}

// template is an angle before it is fitted to a skeleton. Joints have two bones, both from the joint outwards.
type template struct {
	name, kind     string
	bones          []bone
	upright        bool
	zero, positive string
	rate           float64
}

// Shares of the body's height (Drillis and Contini's proportions, rounded).
const (
	upperArmShare, forearmShare, handShare = 0.186, 0.146, 0.08
	thighShare, shankShare, footShare      = 0.245, 0.246, 0.11
	trunkShare, shouldersShare, hipsShare  = 0.288, 0.23, 0.12
	// thighDownShare is what trunk, thigh and shank add up to.
	thighDownShare = trunkShare + thighShare + shankShare
)

// toes are the names that skeletons have for the front of the foot, the first one found is taken.
var toes = []string{"foot_index", "big_toe"}

// templates are all angles, joints first, each left then right.
func templates(s pose.Skeleton) []template {
	toe, hand := "foot_index", "index"
	for _, name := range toes {
		if s.Index("left_"+name) >= 0 {
			toe = name
		}
	}
	var list []template
	joint := func(name, from, at, to string, a, b, rate float64) {
		for _, side := range []string{"left_", "right_"} {
			list = append(list, template{
				name: side + name, kind: kindJoint, rate: rate, zero: "bones folded onto each other", positive: "opening; 180 is straight",
				bones: []bone{{[]string{side + at}, []string{side + from}, a}, {[]string{side + at}, []string{side + to}, b}},
			})
		}
	}
	joint("ankle", "knee", "ankle", toe, shankShare, footShare, legRate)
	joint("knee", "hip", "knee", "ankle", thighShare, shankShare, legRate)
	joint("hip", "shoulder", "hip", "knee", trunkShare, thighShare, legRate)
	joint("shoulder", "hip", "shoulder", "elbow", trunkShare, upperArmShare, armRate)
	joint("elbow", "shoulder", "elbow", "wrist", upperArmShare, forearmShare, armRate)
	joint("wrist", "elbow", "wrist", hand, forearmShare, handShare, armRate)
	limb := func(name, from, to string, share, rate float64, upright bool) {
		for _, side := range []string{"left_", "right_"} {
			list = append(list, segment(side+name, bone{[]string{side + from}, []string{side + to}, share}, rate, upright))
		}
	}
	limb("foot", "heel", toe, footShare, legRate, false)
	limb("shank", "ankle", "knee", shankShare, legRate, true)
	limb("thigh", "knee", "hip", thighShare, legRate, true)
	limb("upper_arm", "shoulder", "elbow", upperArmShare, armRate, false)
	limb("forearm", "elbow", "wrist", forearmShare, armRate, false)
	hips, shoulders := []string{"left_hip", "right_hip"}, []string{"left_shoulder", "right_shoulder"}
	return append(list,
		segment("trunk", bone{hips, shoulders, trunkShare}, legRate, true),
		segment("head", bone{shoulders, []string{"nose"}, 0}, legRate, true),
		segment("shoulders", bone{shoulders[1:], shoulders[:1], shouldersShare}, legRate, false),
		segment("hips", bone{hips[1:], hips[:1], hipsShare}, legRate, false))
}

func segment(name string, b bone, rate float64, upright bool) template {
	t := template{
		name: name, kind: kindSegment, bones: []bone{b}, rate: rate, upright: upright,
		zero: "pointing to the picture's right", positive: "counter-clockwise in the picture",
	}
	if upright {
		t.zero = "pointing straight up"
	}
	return t
}

// Defs are the angles that a skeleton has points for, in the order in which Measure gives them.
func Defs(s pose.Skeleton) []pose.AngleDef {
	var defs []pose.AngleDef
	for _, a := range fit(s) {
		defs = append(defs, a.def)
	}
	return defs
}

// angle is a template fitted to a skeleton.
type angle struct {
	def     pose.AngleDef
	bones   []fitted
	upright bool
}

// fitted is a bone with indices.
type fitted struct {
	from, to []int
	share    float64
}

func fit(s pose.Skeleton) []angle {
	var all []angle
	for _, t := range templates(s) {
		a := angle{upright: t.upright, def: pose.AngleDef{
			Name: t.name, Kind: t.kind, Range: [2]float64{-180, 180}, Plane: "picture", Zero: t.zero, Positive: t.positive, MinRate: t.rate,
		}}
		whole := true
		for _, b := range t.bones {
			f := fitted{from: indices(s, b.from), to: indices(s, b.to), share: b.share}
			whole = whole && f.from != nil && f.to != nil
			a.bones = append(a.bones, f)
		}
		if !whole {
			continue
		}
		a.def.Points = [][]string{t.bones[0].from, t.bones[0].to}
		if t.kind == kindJoint {
			a.def.Range = [2]float64{0, 180}
			a.def.Points = [][]string{t.bones[0].to, t.bones[0].from, t.bones[1].to}
		}
		all = append(all, a)
	}
	return all
}

// indices are the places of the names, nil if one is not there.
func indices(s pose.Skeleton, names []string) []int {
	var out []int
	for _, n := range names {
		i := s.Index(n)
		if i < 0 {
			return nil
		}
		out = append(out, i)
	}
	return out
}
