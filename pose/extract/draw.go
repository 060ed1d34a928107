package extract

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"

	"gocv.io/x/gocv"

	"github.com/posefleet/posefleet/pose"
)

// Colours of the overlay: the athlete's left and right side, and other people by turns.
var (
	leftColour   = color.RGBA{255, 150, 30, 255}
	rightColour  = color.RGBA{30, 210, 255, 255}
	middleColour = color.RGBA{240, 240, 240, 255}
	textColour   = color.RGBA{255, 255, 255, 255}
	shadeColour  = color.RGBA{0, 0, 0, 255}
)

func otherColours() []color.RGBA {
	return []color.RGBA{{120, 200, 120, 255}, {200, 120, 200, 255}, {180, 180, 110, 255}, {130, 140, 220, 255}}
}

const (
	// drawScore is the least score of a point that is drawn, sureScore that of a full line.
	drawScore, sureScore = 0.2, 0.5
	overlayFont          = gocv.FontHersheySimplex
)

// painter draws skeletons into frames.
type painter struct {
	skeleton pose.Skeleton
	sides    []color.RGBA
	athlete  int
	scale    scale
	unit     int // thickness of a line in pixels
}

func newPainter(c *Clip, s scale, size image.Point) *painter {
	p := &painter{skeleton: c.Skeleton, scale: s, unit: max(1, max(size.X, size.Y)/480)}
	if c.Athlete != nil {
		p.athlete = c.Athlete.Track
	}
	for _, name := range p.skeleton.Keypoints {
		switch {
		case strings.Contains(name, "left"):
			p.sides = append(p.sides, leftColour)
		case strings.Contains(name, "right"):
			p.sides = append(p.sides, rightColour)
		default:
			p.sides = append(p.sides, middleColour)
		}
	}
	return p
}

// paint draws all people of a frame, the athlete last, and the frame's place in the clip.
func (p *painter) paint(img *gocv.Mat, f pose.Frame, index int) {
	for _, person := range f.People {
		if person.Track != p.athlete {
			p.person(img, person)
		}
	}
	for _, person := range f.People {
		if person.Track == p.athlete {
			p.person(img, person)
		}
	}
	p.text(img, fmt.Sprintf("%d  %.3f s", index, f.T/1000), image.Pt(6*p.unit, 14*p.unit))
}

func (p *painter) person(img *gocv.Mat, person pose.Person) {
	for _, e := range p.skeleton.Edges {
		a, b := person.Keypoints[e[0]], person.Keypoints[e[1]]
		if shown(a) && shown(b) {
			gocv.Line(img, p.at(a), p.at(b), p.colour(person, e[0], e[1]), p.width(min(a.Score, b.Score)))
		}
	}
	for i, k := range person.Keypoints {
		if shown(k) {
			gocv.Circle(img, p.at(k), p.unit+1, p.colour(person, i, i), -1)
		}
	}
	label := fmt.Sprintf("#%d", person.Track)
	if person.Track == p.athlete {
		label += " athlete"
	}
	p.text(img, label, p.place(img, label, person))
}

// place is where a label goes: above the body, beside it where the picture's edge is near, and always whole in the picture.
func (p *painter) place(img *gocv.Mat, label string, person pose.Person) image.Point {
	box := person.Box
	low, high := p.at(pose.Keypoint{X: box.X, Y: box.Y}), p.at(pose.Keypoint{X: box.X + box.W, Y: box.Y + box.H})
	size := gocv.GetTextSize(label, overlayFont, p.textSize(), p.unit+1)
	at := image.Pt((low.X+high.X-size.X)/2, low.Y-4*p.unit)
	if at.Y < size.Y+p.unit {
		at = image.Pt(high.X+4*p.unit, size.Y+p.unit)
		if at.X+size.X > img.Cols() {
			at.X = low.X - 4*p.unit - size.X
		}
	}
	return image.Pt(max(0, min(at.X, img.Cols()-size.X-1)), max(size.Y, min(at.Y, img.Rows()-p.unit-1)))
}

// textSize is the size of the font.
func (p *painter) textSize() float64 { return 0.35 * float64(p.unit) }

func shown(k pose.Keypoint) bool { return k.Found && k.Score >= drawScore }

// width is thinner for points that the model is unsure of.
func (p *painter) width(score float64) int {
	if score < sureScore {
		return 1
	}
	return p.unit + 1
}

func (p *painter) colour(person pose.Person, a, b int) color.RGBA {
	if person.Track != p.athlete {
		all := otherColours()
		return all[person.Track%len(all)]
	}
	if p.sides[a] == p.sides[b] {
		return p.sides[a]
	}
	return middleColour
}

// at is the frame's pixel of a point of the upright picture.
func (p *painter) at(k pose.Keypoint) image.Point {
	return image.Pt(int(math.Round((k.X+0.5)/p.scale.x-0.5)), int(math.Round((k.Y+0.5)/p.scale.y-0.5)))
}

func (p *painter) text(img *gocv.Mat, text string, at image.Point) {
	size := p.textSize()
	gocv.PutText(img, text, at.Add(image.Pt(1, 1)), overlayFont, size, shadeColour, p.unit+1)
	gocv.PutText(img, text, at, overlayFont, size, textColour, max(1, p.unit/2))
}
