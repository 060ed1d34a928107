package blazepose

// The detector's geometry. It looks at a square picture through five grids, of which the last three are alike; each
// cell of each grid has two boxes, and all boxes are guessed relative to the middle of their cell.
const (
	detectorSide = 224
	boxesPerCell = 2
	numAnchors   = 2254
	// valuesPerBox are box (x, y, w, h) and four key points (x, y).
	valuesPerBox = 12
)

// gridStrides are the cell sizes of the grids in pixels.
var gridStrides = [...]int{8, 16, 32, 32, 32}

// anchors are the middles of the cells that the detector's boxes belong to, in its pixels, in the order of its
// output: grids of one stride are one block, row by row.
func anchors() []Point2 {
	out := make([]Point2, 0, numAnchors)
	for i := 0; i < len(gridStrides); {
		stride, boxes := gridStrides[i], 0
		for ; i < len(gridStrides) && gridStrides[i] == stride; i++ {
			boxes += boxesPerCell
		}
		cells := detectorSide / stride
		for y := range cells {
			for x := range cells {
				for range boxes {
					out = append(out, Point2{
						X: (float64(x) + 0.5) * float64(stride),
						Y: (float64(y) + 0.5) * float64(stride),
					})
				}
			}
		}
	}
	return out
}
