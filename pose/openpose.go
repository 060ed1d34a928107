package pose

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// ExportOpenPose writes one file per frame into dir, which must exist: NAME_000000000000_keypoints.json with the BODY_25 points
// of all people. person_id is the track. Points that ReadOpenPose has read come out as they were.
func ExportOpenPose(dir string, s Source) error {
	view := NewView(s.Skeleton, Body25())
	d := usualDigits
	if view.same {
		d = allDigits
	}
	index := 0
	var b []byte
	for f, err := range s.Frames() {
		if err != nil {
			return err
		}
		b = append(b[:0], `{"version":1.3,"people":[`...)
		for i, p := range f.People {
			b = append(b, separator(i)...)
			b = append(b, `{"person_id":[`...)
			b = strconv.AppendInt(b, int64(p.Track), 10)
			b = append(b, `],"pose_keypoints_2d":`...)
			b = d.flat(b, view.Points(p.Best()))
			b = append(b, openPoseRest...)
		}
		b = append(b, "]}\n"...)
		name := fmt.Sprintf("%s_%012d_keypoints.json", s.Name, index)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
		index++
	}
	return nil
}

// openPoseRest are the parts of a person that readers of the format expect and that this model does not give.
const openPoseRest = `,"face_keypoints_2d":[],"hand_left_keypoints_2d":[],"hand_right_keypoints_2d":[],` +
	`"pose_keypoints_3d":[],"face_keypoints_3d":[],"hand_left_keypoints_3d":[],"hand_right_keypoints_3d":[]}`

// flat writes x,y,score of all points as one list; missing points are 0,0,0.
func (d digits) flat(b []byte, points []Keypoint) []byte {
	b = append(b, '[')
	for i, k := range points {
		b = append(b, separator(i)...)
		if !k.usable() {
			b = append(b, "0,0,0"...)
			continue
		}
		b = appendNumber(b, k.X, d.pixels)
		b = appendNumber(append(b, ','), k.Y, d.pixels)
		b = d.score(append(b, ','), k.Score)
	}
	return append(b, ']')
}

// openPoseName is what the files of the format are called: a name, the frame's index, and the ending.
var openPoseName = regexp.MustCompile(`^(.*)_(\d{1,18})_keypoints\.json$`)

// maxOpenPoseFrames bounds what a file's name can make of a folder.
const maxOpenPoseFrames = 1 << 20

// ReadOpenPose reads a folder of OpenPose files (BODY_25) as a document with one clip, at rate frames per second, which the format
// does not tell. A frame without a file has nobody. Numbers are kept with all their digits; ids are person_id, which OpenPose sets to -1
// for everybody, so that there is no athlete. name is that of the files.
func ReadOpenPose(dir string, rate float64) (name string, d *Document, err error) {
	if !(rate > 0) {
		return "", nil, fmt.Errorf("read OpenPose: %v is no frame rate", rate)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, fmt.Errorf("read OpenPose: %w", err)
	}
	c := Clip{ClipHead: ClipHead{ID: "c1"}}
	first := -1
	for _, e := range entries { // sorted by name, and indices have leading zeros
		m := openPoseName.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		index, err := strconv.Atoi(m[2])
		if first < 0 {
			first, name = index, m[1]
		}
		if err != nil || m[1] != name || index-first < len(c.Frames) || index-first > maxOpenPoseFrames {
			return "", nil, fmt.Errorf("read OpenPose: %s does not follow the file before it", e.Name())
		}
		for len(c.Frames) <= index-first {
			c.Frames = append(c.Frames, Frame{T: 1000 * float64(len(c.Frames)) / rate, People: []Person{}})
		}
		if c.Frames[index-first].People, err = readOpenPosePeople(filepath.Join(dir, e.Name())); err != nil {
			return "", nil, fmt.Errorf("read OpenPose: %s: %w", e.Name(), err)
		}
	}
	if first < 0 {
		return "", nil, fmt.Errorf("read OpenPose: no NAME_000000000000_keypoints.json in the folder: %w", fs.ErrNotExist)
	}
	c.Media = Media{
		PixelAspect: 1, FPS: FPS{Nominal: &rate, Average: &rate}, DurationMs: 1000 * float64(len(c.Frames)) / rate,
		Timestamps: TimestampsEstimated, FramesDecoded: len(c.Frames),
	}
	return name, &Document{Schema: Schema, Model: ModelInfo{Name: "openpose"}, Skeleton: Body25(), Clips: []Clip{c}}, nil
}

func readOpenPosePeople(path string) ([]Person, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f struct {
		People []struct {
			ID     []int     `json:"person_id"`
			Points []float64 `json:"pose_keypoints_2d"`
		} `json:"people"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	people := []Person{}
	for _, in := range f.People {
		p := Person{Track: -1, Keypoints: make([]Keypoint, len(Body25().Keypoints))}
		if len(in.ID) > 0 {
			p.Track = in.ID[0]
		}
		if len(in.Points) != 3*len(p.Keypoints) {
			return nil, errors.New("a person has other points than the 25 of BODY_25")
		}
		found := 0.0
		for i := range p.Keypoints {
			k := Keypoint{X: in.Points[3*i], Y: in.Points[3*i+1], Score: in.Points[3*i+2], Found: true}
			if k.X != 0 || k.Y != 0 || k.Score != 0 {
				p.Keypoints[i] = k
				p.Score += k.Score
				found++
			}
		}
		if found > 0 {
			p.Score /= found
		}
		p.Box, _ = Bounds(p.Keypoints)
		people = append(people, p)
	}
	return people, nil
}

// Write writes a whole document, exact with all digits.
func (d *Document) Write(w io.Writer, exact bool) error {
	e, err := NewEncoder(w, Head{AnalysisID: d.AnalysisID, Model: d.Model, Skeleton: d.Skeleton, Exact: exact})
	if err != nil {
		return err
	}
	for i := range d.Clips {
		if err := e.Clip(d.Clips[i].ClipHead, d.Clips[i].All()); err != nil {
			return err
		}
	}
	return e.Close()
}
