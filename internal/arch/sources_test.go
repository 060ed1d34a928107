package arch_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
)

// limits of the house style, in lines.
const (
	maxFunc      = 100
	longFunc     = 60
	maxLongShare = 0.02 // of all functions outside tests
	maxFile      = 600
	maxTestFile  = 900
)

// source is a Go file of ours.
type source struct {
	path string // relative to the repository
	file *ast.File
	test bool
}

// tree is all our Go files, generated ones left out.
type tree struct {
	fset  *token.FileSet
	files []source
}

func TestFileSizes(t *testing.T) {
	t.Parallel()

	s := load(t)
	for _, f := range s.files {
		limit := maxFile
		if f.test {
			limit = maxTestFile
		}

		if n := s.fset.Position(f.file.FileEnd).Line; n > limit {
			t.Errorf("%s has %d lines, at most %d are allowed", f.path, n, limit)
		}
	}
}

func TestFunctionSizes(t *testing.T) {
	t.Parallel()

	s := load(t)

	var all, long int

	for _, f := range s.files {
		for _, decl := range f.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}

			n := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1
			if n > maxFunc {
				t.Errorf("%s: %s has %d lines, at most %d are allowed", f.path, fn.Name.Name, n, maxFunc)
			}

			if f.test {
				continue
			}

			all++

			if n > longFunc {
				long++
				t.Logf("%s: %s has %d lines", f.path, fn.Name.Name, n)
			}
		}
	}

	if share := float64(long) / float64(all); share > maxLongShare {
		t.Errorf("%d of %d functions (%.1f %%) have more than %d lines, at most %.0f %% may", long, all, 100*share, longFunc, 100*maxLongShare)
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()

	documented := map[string]bool{}

	for _, f := range load(t).files {
		if f.test {
			continue
		}

		dir := filepath.Dir(f.path)
		documented[dir] = documented[dir] || f.file.Doc.Text() != ""
	}

	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

func TestExportedNamesAreExplained(t *testing.T) {
	t.Parallel()

	s := load(t)
	for _, f := range s.files {
		if f.test || f.file.Name.Name == "main" {
			continue
		}

		for _, decl := range f.file.Decls {
			for _, name := range unexplained(decl) {
				t.Errorf("%s: %s has no doc comment", s.fset.Position(name.Pos()), name.Name)
			}
		}
	}
}

// unexplained lists the exported names of a declaration that no comment explains. A comment on a group explains its constants and
// variables, a comment at the end of a line explains that line.
func unexplained(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && d.Doc.Text() == "" {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			names = append(names, unexplainedSpec(d, spec)...)
		}

		return names
	}

	return nil
}

func unexplainedSpec(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		explained := s.Doc.Text() != "" || s.Comment.Text() != "" || !d.Lparen.IsValid() && d.Doc.Text() != ""
		if s.Name.IsExported() && !explained {
			return []*ast.Ident{s.Name}
		}
	case *ast.ValueSpec:
		if s.Doc.Text() != "" || s.Comment.Text() != "" || d.Doc.Text() != "" {
			return nil
		}

		var names []*ast.Ident

		for _, name := range s.Names {
			if name.IsExported() {
				names = append(names, name)
			}
		}

		return names
	}

	return nil
}

// exportedReceiver is true for functions and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}

	exported := false

	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = id.IsExported()

			return false // the type's name comes before its parameters
		}

		return !exported
	})

	return exported
}

// What belongs to one machine or one network does not belong into the sources.
func TestNothingOfOneMachine(t *testing.T) {
	t.Parallel()

	// Joined here, so that this file does not find itself.
	banned := []string{
		"proxy." + "golang.org", "sum." + "golang.org", "registry." + "npmjs.org", "registry." + "yarnpkg.com", "deb." + "debian.org",
		"security." + "debian.org", "snapshot." + "debian.org", `"reso` + `lved"`, "/wo" + "rk/main", "/wo" + "rk/shared", "/ho" + "me/", "/Us" + "ers/",
	}

	root := need.ModuleRoot(t)

	walk(t, root, func(path string) {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Error(err)

			return
		}

		for _, word := range banned {
			if bytes.Contains(raw, []byte(word)) {
				t.Errorf("%s contains %q", path, word)
			}
		}
	})
}

func load(t *testing.T) *tree {
	t.Helper()

	root := need.ModuleRoot(t)
	s := &tree{fset: token.NewFileSet()}

	walk(t, root, func(path string) {
		if filepath.Ext(path) != ".go" {
			return
		}

		f, err := parser.ParseFile(s.fset, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
		} else if !ast.IsGenerated(f) {
			s.files = append(s.files, source{path: path, file: f, test: strings.HasSuffix(path, "_test.go")})
		}
	})

	if len(s.files) == 0 {
		t.Fatal("no sources found")
	}

	return s
}

// walk visits the files of the repository, without what is built, fetched or hidden. CI's folder is hidden and wanted.
func walk(t *testing.T, root string, visit func(path string)) {
	t.Helper()

	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}

		name := d.Name()
		if d.IsDir() {
			if name == "node_modules" || name == "build" && filepath.Dir(path) == root || strings.HasPrefix(name, ".") && name != ".ci" {
				return filepath.SkipDir
			}

			return nil
		}

		if d.Type().IsRegular() {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}

			visit(rel)
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
