// Package strictjson reads JSON of people who wait for the answer and can be told: a field that is not known, that is written in another
// case, or that comes twice is refused by its name. encoding/json takes no notice of any of them, and a mistyped option would be the
// default in silence.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// maxName bounds how much of a name from elsewhere is repeated.
const maxName = 80

// FieldError is a field that must not be there.
type FieldError struct {
	// Field is its path, as clips[0].size.
	Field string
	// Twice: it is known, and came before.
	Twice bool
}

// Error names the field.
func (e *FieldError) Error() string {
	if e.Twice {
		return fmt.Sprintf("field %.*q comes twice", maxName, e.Field)
	}

	return fmt.Sprintf("field %.*q is not known", maxName, e.Field)
}

// Unmarshal is json.Unmarshal with a *FieldError for names that the struct does not have. In a map, an interface and a type
// that reads itself, as json.RawMessage, every name is good, once.
func Unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil { // also bounds the depth
		return err //nolint:wrapcheck // this is json.Unmarshal and more
	}

	return check(json.NewDecoder(bytes.NewReader(data)), reflect.TypeOf(v), "")
}

// check reads one value, of type t as far as that is known.
func check(d *json.Decoder, t reflect.Type, path string) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}

	switch token {
	case json.Delim('{'):
		err = checkObject(d, plain(t), path)
	case json.Delim('['):
		err = checkArray(d, plain(t), path)
	default:
		return nil
	}

	if err != nil {
		return err
	}

	if _, err := d.Token(); err != nil { // the end of it
		return fmt.Errorf("read JSON: %w", err)
	}

	return nil
}

func checkObject(d *json.Decoder, t reflect.Type, path string) error {
	known := fields(t)
	seen := map[string]bool{}

	for d.More() {
		token, err := d.Token()
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}

		name, _ := token.(string) // keys are strings
		at := strings.TrimPrefix(path+"."+name, ".")

		if seen[name] {
			return &FieldError{Field: at, Twice: true}
		}

		seen[name] = true

		of, ok := known[name]
		switch {
		case known != nil && !ok:
			return &FieldError{Field: at}
		case known == nil && t != nil && t.Kind() == reflect.Map:
			of = t.Elem()
		}

		if err := check(d, of, at); err != nil {
			return err
		}
	}

	return nil
}

func checkArray(d *json.Decoder, t reflect.Type, path string) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}

	for i := 0; d.More(); i++ {
		if err := check(d, of, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}

	return nil
}

// plain is the type behind pointers; nil for one that reads itself.
func plain(t reflect.Type) reflect.Type {
	reader := reflect.TypeFor[json.Unmarshaler]()

	for t != nil {
		if t.Implements(reader) || reflect.PointerTo(t).Implements(reader) {
			return nil
		}

		if t.Kind() != reflect.Pointer {
			return t
		}

		t = t.Elem()
	}

	return nil
}

// fields are the names of a struct with their types; nil where every name is good.
func fields(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}

	out := map[string]reflect.Type{}

	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}

		if name == "" {
			name = f.Name
		}

		out[name] = f.Type
	}

	return out
}
