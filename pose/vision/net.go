package vision

import (
	"context"
	"fmt"
	"slices"

	"github.com/posefleet/posefleet/pose/infer"
	"github.com/posefleet/posefleet/pose/manifest"
)

// Net is a loaded model with its canvas and its outputs by role. It owns the session: Close frees it.
type Net struct {
	*Canvas
	manifest manifest.Manifest
	session  infer.Session
	roles    map[string]int
	out      []infer.Tensor
	input    [1]infer.Tensor
}

// NewNet joins a session to the manifest of its file. On a fault the session stays the caller's.
func NewNet(m manifest.Manifest, s infer.Session) (*Net, error) {
	in := s.Inputs()
	if len(in) != 1 {
		return nil, fmt.Errorf("%w: %d inputs, not one picture: %v", ErrLayout, len(in), in)
	}
	c, err := NewCanvas(m, in[0])
	if err != nil {
		return nil, err
	}
	n := &Net{Canvas: c, manifest: m, session: s, roles: map[string]int{}}
	for i, role := range m.Family.Roles() {
		if name, ok := m.Outputs[role]; ok {
			i = slices.IndexFunc(s.Outputs(), func(t infer.TensorInfo) bool { return t.Name == name })
		}
		if i < 0 || i >= len(s.Outputs()) {
			return nil, fmt.Errorf("%w: no output for %q among %v", ErrLayout, role, s.Outputs())
		}
		if t := s.Outputs()[i]; t.DType != infer.Float32 {
			return nil, fmt.Errorf("%w: output %v is not float32", ErrLayout, t)
		}
		n.roles[role] = i
	}
	return n, nil
}

// Manifest describes the model.
func (n *Net) Manifest() manifest.Manifest { return n.manifest }

// Output is what the file says about the output of a role.
func (n *Net) Output(role string) infer.TensorInfo { return n.session.Outputs()[n.roles[role]] }

// Run computes the outputs for what is on the canvas.
func (n *Net) Run(ctx context.Context) error {
	n.input[0] = n.Tensor()
	out, err := n.session.Run(ctx, n.input[:])
	if err != nil {
		return fmt.Errorf("%s: %w", n.manifest.Name, err)
	}
	n.out = out
	return nil
}

// Result is the output of a role of the last Run, after its shape has been compared; -1 fits any size. It is valid until the next Run.
func (n *Net) Result(role string, shape ...int64) (infer.Tensor, error) {
	t := n.out[n.roles[role]]
	if !Fits(t.Shape, shape) || t.F32 == nil {
		return t, fmt.Errorf("%s: %w: output %s has the shape %v, not %v", n.manifest.Name, ErrLayout, t.Name, t.Shape, shape)
	}
	return t, nil
}

// Fits says whether two shapes agree; a negative size in either fits any.
func Fits(have, want []int64) bool {
	return slices.EqualFunc(have, want, func(a, b int64) bool { return a == b || a < 0 || b < 0 })
}

// CheckOutput compares what the file says about an output, if it says anything, with the shapes that its family gives it.
func (n *Net) CheckOutput(role string, shapes ...[]int64) error {
	t := n.Output(role)
	if t.Shape == nil {
		return nil
	}
	for _, s := range shapes {
		if Fits(t.Shape, s) {
			return nil
		}
	}
	return fmt.Errorf("%w: output %v is none of %v, which a %s model with %d points has", ErrLayout, t, shapes, n.manifest.Family,
		len(n.manifest.Skeleton.Keypoints))
}

// Close frees the session. A second call does nothing.
func (n *Net) Close() error { return n.session.Close() }
