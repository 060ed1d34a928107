package synth

import "math"

// Walk is a stance of somebody who walks; a step with each leg takes the phase from 0 to 1.
func Walk(phase, yaw float64) Stance {
	swing := math.Sin(2 * math.Pi * phase)
	bend := func(p float64) float64 { return 0.15 + 0.75*math.Pow(math.Max(0, math.Sin(2*math.Pi*p+2.2)), 2) }
	return Stance{
		Yaw: yaw, Lean: 0.06,
		Lift:     -0.012 * swing * swing,
		LeftLeg:  Limb{Swing: 0.1 + 0.42*swing, Spread: 0.03, Bend: bend(phase)},
		RightLeg: Limb{Swing: 0.1 - 0.42*swing, Spread: 0.03, Bend: bend(phase + 0.5)},
		LeftArm:  Limb{Swing: -0.4 * swing, Spread: 0.1, Bend: 0.35},
		RightArm: Limb{Swing: 0.4 * swing, Spread: 0.1, Bend: 0.35},
	}
}

// Jack is a stance of jumping jacks: arms and legs go out and in again while the phase goes from 0 to 1.
func Jack(phase, yaw float64) Stance {
	out := 0.5 - 0.5*math.Cos(2*math.Pi*phase)
	return Stance{
		Yaw: yaw, Lift: 0.03 * math.Sin(math.Pi*phase) * math.Sin(math.Pi*phase),
		LeftArm: Limb{Spread: 0.15 + 2.5*out}, RightArm: Limb{Spread: 0.15 + 2.5*out},
		LeftLeg: Limb{Spread: 0.05 + 0.4*out}, RightLeg: Limb{Spread: 0.05 + 0.4*out},
	}
}

// Bowl is a stance of a right-arm bowler near release: while the phase goes from 0 to 1 the straight arm goes from behind the back over the
// head to the front, the front leg stays straight and the trunk tips forward.
func Bowl(phase, yaw float64) Stance {
	arm := -math.Pi/2 - (1.6+math.Pi)*(phase-0.15)
	return Stance{
		Yaw: yaw, Lean: -0.1 + 0.7*phase,
		RightArm: Limb{Swing: arm - 0.4*phase, Spread: 0.12, Bend: 0.08},
		LeftArm:  Limb{Swing: 2.4 - 3.2*phase, Spread: 0.2, Bend: 0.3 + 0.8*phase},
		LeftLeg:  Limb{Swing: 0.55 - 0.35*phase, Spread: 0.06, Bend: 0.05},
		RightLeg: Limb{Swing: -0.45 + 0.8*phase, Spread: 0.06, Bend: 0.4 + 0.6*math.Sin(math.Pi*phase)},
		Lift:     -0.05,
	}
}
