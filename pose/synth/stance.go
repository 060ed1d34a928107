package synth

import "math"

// Stance is how a body holds itself. The zero value stands upright with hanging arms and looks into the camera.
type Stance struct {
	// Yaw turns the body about its own axis: 0 looks into the camera, π/2 to the right of the picture.
	Yaw float64
	// Lean tips the trunk forward.
	Lean float64
	// Lift raises the whole body, in body heights.
	Lift              float64
	LeftArm, RightArm Limb
	LeftLeg, RightLeg Limb
	// HeadTurn turns the head to the person's left, HeadTilt tips it back.
	HeadTurn, HeadTilt float64
}

// Limb is an arm or a leg.
type Limb struct {
	// Swing moves it forward (positive) and back, a whole turn goes over the head; Spread moves it away from the body.
	Swing, Spread float64
	// Bend is of elbow or knee; 0 is straight.
	Bend float64
}

// Lengths of the body in parts of its height.
const (
	hipHeight      = 0.52
	trunkLength    = 0.29
	shoulderHalf   = 0.105
	hipHalf        = 0.055
	shoulderRise   = 0.035
	upperArm       = 0.165
	foreArm        = 0.145
	handLength     = 0.075
	thigh          = 0.255
	shank          = 0.235
	ankleHeight    = hipHeight - thigh - shank
	footLength     = 0.12
	heelBack       = 0.035
	neckLength     = 0.085
	headRadius     = 0.062
	headCentreRise = 0.055
)

// vec is a point or a way: x to the right of the picture, y up, z towards the camera.
type vec struct{ x, y, z float64 }

func (a vec) plus(b vec) vec             { return vec{a.x + b.x, a.y + b.y, a.z + b.z} }
func (a vec) times(f float64) vec        { return vec{a.x * f, a.y * f, a.z * f} }
func (a vec) to(b vec, part float64) vec { return a.times(1 - part).plus(b.times(part)) }

func (a vec) distance(b vec) float64 {
	return math.Hypot(math.Hypot(a.x-b.x, a.y-b.y), a.z-b.z)
}

func (a vec) turned(yaw float64) vec {
	sin, cos := math.Sincos(yaw)
	return vec{a.x*cos + a.z*sin, a.y, -a.x*sin + a.z*cos}
}

// tipped turns about the axis to the person's left: up goes forward.
func (a vec) tipped(angle float64) vec {
	sin, cos := math.Sincos(angle)
	return vec{a.x, a.y*cos - a.z*sin, a.y*sin + a.z*cos}
}

// bones are the joints of a stance in parts of the height, the ground below the hips at (0, 0, 0). They are in the order of the
// blazepose33 skeleton; the rest is what only the drawing needs.
type bones struct {
	joints                   [33]vec
	neck, skull, crown, nape vec
}

// hanging is the way along a limb of the given length that hangs down, swings and spreads; side is 1 to the person's left.
func hanging(length, swing, spread, side float64) vec {
	sinSpread, cosSpread := math.Sincos(spread)
	sin, cos := math.Sincos(swing)
	return vec{side * sinSpread * length, -cos * cosSpread * length, sin * cosSpread * length}
}

// bones places all joints. A person who looks into the camera has the left side at the right of the picture.
func (s Stance) bones() bones {
	var b bones
	hips := vec{0, hipHeight + s.Lift, 0}
	up := func(x, y, z float64) vec { return hips.plus(vec{x, y, z}.tipped(s.Lean)) }
	b.neck = up(0, trunkLength+0.02, 0)
	b.arm(1, up(shoulderHalf, trunkLength, 0), s.LeftArm, s.Lean, [6]int{11, 13, 15, 17, 19, 21})
	b.arm(-1, up(-shoulderHalf, trunkLength, 0), s.RightArm, s.Lean, [6]int{12, 14, 16, 18, 20, 22})
	b.leg(1, hips.plus(vec{hipHalf, 0, 0}), s.LeftLeg, [5]int{23, 25, 27, 29, 31})
	b.leg(-1, hips.plus(vec{-hipHalf, 0, 0}), s.RightLeg, [5]int{24, 26, 28, 30, 32})
	b.head(up(0, trunkLength+neckLength, 0.01), s)
	b.turn(s.Yaw)
	return b
}

func (b *bones) arm(side float64, shoulder vec, l Limb, lean float64, at [6]int) {
	upper := hanging(1, l.Swing, l.Spread, side)
	// The girdle goes up with the arm.
	shoulder = shoulder.plus(vec{0, shoulderRise * (1 + upper.y) / 2, 0}.tipped(lean))
	elbow := shoulder.plus(upper.times(upperArm).tipped(lean))
	fore := hanging(1, l.Swing+l.Bend, l.Spread, side).tipped(lean)
	wrist := elbow.plus(fore.times(foreArm))
	b.joints[at[0]], b.joints[at[1]], b.joints[at[2]] = shoulder, elbow, wrist
	b.joints[at[3]] = wrist.plus(fore.times(handLength * 0.85)).plus(vec{0, 0, -0.014})
	b.joints[at[4]] = wrist.plus(fore.times(handLength)).plus(vec{0, 0, 0.012})
	b.joints[at[5]] = wrist.plus(fore.times(handLength * 0.5)).plus(vec{0, 0, 0.026})
}

func (b *bones) leg(side float64, hip vec, l Limb, at [5]int) {
	knee := hip.plus(hanging(thigh, l.Swing, l.Spread, side))
	ankle := knee.plus(hanging(shank, l.Swing-l.Bend, l.Spread, side))
	// The foot stands at a right angle to the shank.
	sole := func(y, z float64) vec {
		return ankle.plus(vec{side * 0.1 * z, y, z}.tipped(-(l.Swing - l.Bend)))
	}
	b.joints[at[0]], b.joints[at[1]], b.joints[at[2]] = hip, knee, ankle
	b.joints[at[3]] = sole(-0.6*ankleHeight, -heelBack)
	b.joints[at[4]] = sole(-0.7*ankleHeight, footLength)
}

// head places the face: nose, eyes, ears and mouth.
func (b *bones) head(base vec, s Stance) {
	centre := base.plus(vec{0, headCentreRise, 0.012})
	face := func(x, y, z float64) vec {
		return centre.plus(vec{x, y, z}.times(headRadius).tipped(s.HeadTilt).turned(s.HeadTurn))
	}
	b.skull, b.crown, b.nape = centre, face(0, 0.4, -0.25), face(0, -0.1, -0.4)
	places := [11]vec{
		{0, -0.12, 1.18},
		{0.2, 0.17, 0.93},
		{0.36, 0.18, 0.88},
		{0.52, 0.16, 0.78},
		{-0.2, 0.17, 0.93},
		{-0.36, 0.18, 0.88},
		{-0.52, 0.16, 0.78},
		{0.97, -0.05, 0},
		{-0.97, -0.05, 0},
		{0.26, -0.52, 0.88},
		{-0.26, -0.52, 0.88},
	}
	for i, p := range places {
		b.joints[i] = face(p.x, p.y, p.z)
	}
}

// turn turns all about the body's own axis.
func (b *bones) turn(yaw float64) {
	for i := range b.joints {
		b.joints[i] = b.joints[i].turned(yaw)
	}
	for _, p := range []*vec{&b.neck, &b.skull, &b.crown, &b.nape} {
		*p = p.turned(yaw)
	}
}
