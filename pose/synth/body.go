package synth

// colour is blue, green, red, 0..255.
type colour [3]float64

// Clothes are the colours of a body.
type Clothes struct{ Skin, Hair, Shirt, Shorts, Shoes colour }

// Wardrobe are clothes that differ from each other.
func Wardrobe(n int) Clothes {
	all := []Clothes{
		{Skin: colour{140, 170, 220}, Hair: colour{30, 40, 60}, Shirt: colour{60, 50, 200}, Shorts: colour{70, 45, 35}, Shoes: colour{230, 230, 230}},
		{Skin: colour{90, 120, 175}, Hair: colour{20, 20, 25}, Shirt: colour{190, 200, 205}, Shorts: colour{150, 90, 40}, Shoes: colour{40, 40, 45}},
		{Skin: colour{150, 180, 225}, Hair: colour{70, 110, 150}, Shirt: colour{170, 110, 30}, Shorts: colour{40, 40, 40}, Shoes: colour{60, 160, 220}},
		{Skin: colour{60, 85, 130}, Hair: colour{15, 15, 20}, Shirt: colour{50, 180, 220}, Shorts: colour{60, 110, 50}, Shoes: colour{200, 200, 200}},
	}
	return all[n%len(all)]
}

// part is a tube from a to b that is ra and rb thick, in parts of the height.
type part struct {
	a, b   vec
	ra, rb float64
	paint  colour
}

// parts are the pieces of a body.
func (b bones) parts(c Clothes) []part {
	j := b.joints
	var out []part
	add := func(a, z vec, ra, rb float64, paint colour) { out = append(out, part{a, z, ra, rb, paint}) }
	b.trunk(c, add)
	for side := range 2 {
		shoulder, elbow, wrist := j[11+side], j[13+side], j[15+side]
		sleeve := shoulder.to(elbow, 0.6)
		add(shoulder, sleeve, 0.037, 0.032, c.Shirt)
		add(sleeve, elbow, 0.025, 0.023, c.Skin)
		add(elbow, elbow.to(wrist, 0.35), 0.023, 0.024, c.Skin)
		add(elbow.to(wrist, 0.35), wrist, 0.024, 0.015, c.Skin)
		add(wrist, j[19+side], 0.016, 0.01, c.Skin)
		add(wrist, j[17+side], 0.016, 0.01, c.Skin)
		add(wrist, j[21+side], 0.012, 0.007, c.Skin)
		hip, knee, ankle := j[23+side], j[25+side], j[27+side]
		hem := hip.to(knee, 0.72)
		add(hip, hem, 0.062, 0.05, c.Shorts)
		add(hem, knee, 0.039, 0.034, c.Skin)
		calf := knee.to(ankle, 0.3)
		add(knee, calf, 0.034, 0.034, c.Skin)
		add(calf, ankle, 0.034, 0.019, c.Skin)
		add(j[29+side], j[31+side], 0.021, 0.016, c.Shoes)
		add(ankle, j[29+side].to(j[31+side], 0.35), 0.022, 0.022, c.Shoes)
	}
	b.face(c, add)
	return out
}

func (b bones) trunk(c Clothes, add func(a, z vec, ra, rb float64, paint colour)) {
	j := b.joints
	left, right, chest := j[11], j[12], j[11].to(j[12], 0.5)
	waist := j[23].to(j[24], 0.5).to(chest, 0.3)
	for _, side := range []float64{0.15, 0.38, 0.62, 0.85} {
		top := left.to(right, side)
		low := j[23].to(j[24], side).to(chest, 0.12)
		middle := top.to(low, 0.45)
		add(top.to(low, 0.1), middle, 0.048, 0.056, c.Shirt)
		add(middle, low, 0.056, 0.05, c.Shirt)
		add(low, j[23].to(j[24], side), 0.052, 0.056, c.Shorts)
	}
	add(left, right, 0.034, 0.034, c.Shirt)
	add(waist, chest, 0.055, 0.06, c.Shirt)
	add(b.neck.to(chest, 0.4), b.skull.plus(vec{0, -0.03, 0}), 0.031, 0.029, c.Skin)
}

func (b bones) face(c Clothes, add func(a, z vec, ra, rb float64, paint colour)) {
	j := b.joints
	chin := j[9].to(j[10], 0.5).to(b.skull, 0.35)
	add(b.skull, b.skull, headRadius, headRadius, c.Skin)
	add(b.skull, chin, headRadius*0.85, headRadius*0.62, c.Skin)
	add(b.crown, b.nape, headRadius*0.98, headRadius*0.9, c.Hair)
	add(j[0].to(b.skull, 0.3), j[0].to(b.skull, 0.06), 0.008, 0.009, c.Skin)
	white, dark, lips := colour{225, 230, 235}, colour{35, 30, 40}, colour{85, 75, 165}
	for _, eye := range []int{2, 5} {
		add(j[eye].to(b.skull, 0.06), j[eye].to(b.skull, 0.06), 0.0095, 0.0095, white)
		add(j[eye].to(b.skull, 0.0), j[eye].to(b.skull, 0.0), 0.006, 0.006, dark)
		brow := vec{0, 0.013, 0}
		add(j[eye-1].to(b.skull, 0.05).plus(brow), j[eye+1].to(b.skull, 0.05).plus(brow), 0.0035, 0.0035, c.Hair)
	}
	add(j[9].to(b.skull, 0.04), j[10].to(b.skull, 0.04), 0.0055, 0.0055, lips)
	for _, ear := range []int{7, 8} {
		add(j[ear], j[ear].plus(vec{0, -0.012, 0}), 0.012, 0.01, c.Skin)
	}
}
