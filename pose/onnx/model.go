package onnx

// DType is the type of a tensor's elements, by its number in the format.
type DType int32

// Element types that the project uses.
const (
	Float32 DType = 1
	Uint8   DType = 2
	Int32   DType = 6
	Int64   DType = 7
)

// Model is a whole file.
type Model struct {
	// Producer names the program that made the model.
	Producer string
	// Opset is the version of the operator set that the nodes mean.
	Opset int64
	Graph Graph
}

// Graph is the computation. Nodes must be in an order in which inputs come before their use.
type Graph struct {
	Name            string
	Nodes           []Node
	Initializers    []Tensor
	Inputs, Outputs []Value
}

// Node is one operation. An empty input name leaves that optional input out.
type Node struct {
	Op              string
	Inputs, Outputs []string
	Attrs           []Attr
}

// Value names and describes an input or output of the graph.
type Value struct {
	Name  string
	DType DType
	// Shape holds the sizes; -1 is a size that is only known when the model runs. Nil means that the file does
	// not say, not even how many dimensions there are.
	Shape []int64
}

// Tensor is a constant. Exactly one of the data fields is used; it must fit the shape. A tensor with no dimensions
// is a scalar.
type Tensor struct {
	Name  string
	Shape []int64
	F32   []float32
	I64   []int64
	I32   []int32
	U8    []byte
}

// Attr is a named attribute of a node; make one with Int, Ints, Float, Floats or String.
type Attr struct {
	name   string
	kind   uint64
	number int64
	real   float32
	text   string
	ints   []int64
	floats []float32
}

// Attribute kinds, by their number in the format.
const (
	kindFloat  = 1
	kindInt    = 2
	kindString = 3
	kindFloats = 6
	kindInts   = 7
)

// Int makes an attribute that is a whole number.
func Int(name string, v int64) Attr { return Attr{name: name, kind: kindInt, number: v} }

// Ints makes an attribute that is a list of whole numbers.
func Ints(name string, v ...int64) Attr { return Attr{name: name, kind: kindInts, ints: v} }

// Float makes an attribute that is a real number.
func Float(name string, v float32) Attr { return Attr{name: name, kind: kindFloat, real: v} }

// Floats makes an attribute that is a list of real numbers.
func Floats(name string, v ...float32) Attr { return Attr{name: name, kind: kindFloats, floats: v} }

// String makes an attribute that is a text.
func String(name, v string) Attr { return Attr{name: name, kind: kindString, text: v} }
