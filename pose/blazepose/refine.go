package blazepose

// The heatmaps say per point how likely it is at each place of a coarse grid. The points themselves are guessed
// without looking at them, and are a little better when moved to the heat's centre.
const (
	heatSide = 64
	// heatReach is how many cells the search goes to each side of the guess.
	heatReach = 3
	// Up to coldHeat in its best cell a guess stays, from fullHeat on it moves all the way. A threshold between would
	// make points jump from frame to frame.
	coldHeat, fullHeat = 0.3, 0.6
)

// refine moves each point, in crop pixels, to the centre of the heat around it, and notes how hot its best cell is.
// heat holds one map of heatSide rows per point, in logits.
func refine(points []Point, heat []float32) {
	for i := range points {
		refinePoint(&points[i], heat[i*heatSide*heatSide:(i+1)*heatSide*heatSide])
	}
}

// refinePoint refines one point. A point outside of the crop has no heat.
func refinePoint(p *Point, heat []float32) {
	const cell = cropSide / heatSide
	if !(p.X >= 0 && p.X < cropSide && p.Y >= 0 && p.Y < cropSide) {
		return
	}
	column, row := int(p.X)/cell, int(p.Y)/cell
	p.Heat = 0
	var sum, sumX, sumY float64
	for y := max(row-heatReach, 0); y <= min(row+heatReach, heatSide-1); y++ {
		for x := max(column-heatReach, 0); x <= min(column+heatReach, heatSide-1); x++ {
			v := sigmoid(float64(heat[y*heatSide+x]))
			p.Heat = max(p.Heat, v)
			sum += v
			sumX += v * float64(x)
			sumY += v * float64(y)
		}
	}
	way := min(max((p.Heat-coldHeat)/(fullHeat-coldHeat), 0), 1)
	p.X += way * (sumX/sum*cell - p.X)
	p.Y += way * (sumY/sum*cell - p.Y)
}
