package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/posefleet/posefleet/internal/assets"
	"github.com/posefleet/posefleet/pose"
	"github.com/posefleet/posefleet/pose/blazepose"
	"github.com/posefleet/posefleet/pose/manifest"
)

// EnvDir names the environment variable with the folder of the user's models.
const EnvDir = "POSEFLEET_MODELS"

// ErrUnknown says that no model has the name that was asked for.
var ErrUnknown = errors.New("no such model")

// FamilyBlazePose is the family of the shipped models, which have no manifest of their own.
const FamilyBlazePose manifest.Family = "blazepose"

// Config says where models are and how they are run.
type Config struct {
	// Assets is the folder with the shipped models and the inference library. Empty: the usual places (see internal/assets).
	Assets string
	// Dir is the folder of the user's models: a folder with a pose.json for each, or one pose.json in Dir itself. Empty: none.
	Dir string
	// Engine is auto, onnxruntime or opencv, see blazepose.Config.
	Engine string
	// Threads of one inference, 1..64. 0: 1.
	Threads int
}

// Validate reports all faults of the configuration at once.
func (c Config) Validate() error {
	err := blazepose.Config{Assets: c.Assets, Engine: c.Engine, Threads: c.Threads}.Validate()
	if c.Dir == "" {
		return err
	}
	if info, statErr := os.Stat(c.Dir); statErr != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", EnvDir, statErr))
	} else if !info.IsDir() {
		err = errors.Join(err, fmt.Errorf("%s: %s is not a folder", EnvDir, c.Dir))
	}
	return err
}

// Entry is a model of the catalogue.
type Entry struct {
	// Name is how the model is asked for.
	Name   string
	Family manifest.Family
	// Path is the model's file, as far as it is known.
	Path string
	// SHA256 is the sum that the file must have, in hex; empty where none is known.
	SHA256   string
	Licence  string
	Skeleton pose.Skeleton
	// Manifest is that of a user's model; ManifestPath is where it lies.
	Manifest     manifest.Manifest
	ManifestPath string
	// Err says why the model cannot be used, as far as can be seen without reading its file. Nil: nothing speaks against it.
	Err error
}

// Shipped says whether the model came with posefleet's setup.
func (e Entry) Shipped() bool { return e.Family == FamilyBlazePose }

// Catalogue lists and opens models. It keeps nothing open and may be used by several goroutines.
type Catalogue struct{ config Config }

// New returns the catalogue of a configuration.
func New(c Config) (*Catalogue, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Catalogue{config: c}, nil
}

// Entries are all models: the shipped ones, fastest first, and the user's by name. A model that cannot be used is among them, with the
// reason.
func (c *Catalogue) Entries() []Entry {
	all := c.shipped()
	users := c.users()
	for i := range users {
		e := &users[i]
		same := func(o Entry) bool { return o.Name == e.Name && o.ManifestPath != e.ManifestPath }
		if e.Err == nil && (slices.ContainsFunc(all, same) || slices.ContainsFunc(users, same)) {
			e.Err = fmt.Errorf("the name %q belongs to another model too", e.Name)
		}
	}
	return append(all, users...)
}

// OwnPrefix may stand before the name of a user's model. It must where a job asks for it, see protocol.OwnModelPrefix.
const OwnPrefix = "own:"

// Find returns the model of a name; whoever asks from afar may give a name only. A fault of the model itself is in its entry.
func (c *Catalogue) Find(name string) (Entry, error) {
	all := c.Entries()
	if own, ok := strings.CutPrefix(name, OwnPrefix); ok {
		name = own
		all = slices.DeleteFunc(all, Entry.Shipped)
	}
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	if len(names) == 0 {
		return Entry{}, fmt.Errorf("%w: %.64q: there are no models but the shipped ones", ErrUnknown, name)
	}
	return Entry{}, fmt.Errorf("%w: %.64q is none of %s", ErrUnknown, name, strings.Join(names, ", "))
}

// Locate returns the model of a name or a path: of a folder with a pose.json, of a manifest, or of a model's file with a manifest beside
// it (NAME.pose.json for NAME.onnx, or pose.json).
func (c *Catalogue) Locate(nameOrPath string) (Entry, error) {
	e, err := c.Find(nameOrPath)
	if err == nil {
		return e, nil
	}
	info, statErr := os.Stat(nameOrPath)
	if statErr != nil {
		if looksLikePath(nameOrPath) {
			return Entry{}, fmt.Errorf("%w: %w", ErrUnknown, statErr)
		}
		return Entry{}, err
	}
	path, err := manifestOf(nameOrPath, info)
	if err != nil {
		return Entry{}, err
	}
	e = entryOf(path)
	if e.Err == nil && filepath.Ext(nameOrPath) == ".onnx" && filepath.Base(nameOrPath) != e.Manifest.File {
		return Entry{}, fmt.Errorf("%w: %s is about %s, not %s", ErrUnknown, path, e.Manifest.File, filepath.Base(nameOrPath))
	}
	return e, nil
}

func looksLikePath(s string) bool {
	return strings.ContainsRune(s, filepath.Separator) || filepath.Ext(s) == ".onnx" || filepath.Ext(s) == ".json"
}

// manifestOf is the path of the manifest that goes with a path.
func manifestOf(path string, info fs.FileInfo) (string, error) {
	if info.IsDir() {
		return filepath.Join(path, manifest.FileName), nil
	}
	if filepath.Ext(path) == ".json" {
		return path, nil
	}
	own := strings.TrimSuffix(path, filepath.Ext(path)) + "." + manifest.FileName
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	beside := filepath.Join(filepath.Dir(path), manifest.FileName)
	if _, err := os.Stat(beside); err != nil {
		return "", fmt.Errorf("%w: %s has no manifest; write one as %s beside it (docs/pose.md, Bring your own model)", ErrUnknown, path, beside)
	}
	return beside, nil
}

// entryOf reads a manifest. Its faults are the entry's.
func entryOf(path string) Entry {
	m, err := manifest.Read(path)
	name := m.Name
	if name == "" {
		name = filepath.Base(filepath.Dir(path))
	}
	if err == nil {
		if _, statErr := os.Stat(m.Path()); statErr != nil {
			err = statErr
		}
	}
	return Entry{
		Name: name, Family: m.Family, Path: m.Path(), SHA256: m.SHA256, Licence: m.Licence, Skeleton: m.Skeleton.Skeleton,
		Manifest: m, ManifestPath: path, Err: err,
	}
}

// shipped are the models of the assets folder.
func (c *Catalogue) shipped() []Entry {
	dir, dirErr := c.assets()
	var all []Entry
	for _, name := range blazepose.Models() {
		e := Entry{
			Name: name, Family: FamilyBlazePose, Licence: "Apache-2.0", Skeleton: pose.BlazePose33(), Err: dirErr,
		}
		if dirErr == nil {
			file := assets.ModelFile("pose_landmark_"+name, false)
			e.Path = filepath.Join(dir.Path, file)
			sum, ok := dir.SHA256(file)
			if e.SHA256 = sum; !ok {
				e.Err = fmt.Errorf("%s: %w", e.Path, assets.ErrUnlisted)
			} else if _, err := os.Stat(e.Path); err != nil {
				e.Err = err
			}
		}
		all = append(all, e)
	}
	return all
}

func (c *Catalogue) assets() (*assets.Dir, error) {
	if c.config.Assets == "" {
		return assets.Find()
	}
	return assets.Open(c.config.Assets)
}

// users are the models of the user's folder, by name.
func (c *Catalogue) users() []Entry {
	if c.config.Dir == "" {
		return nil
	}
	paths, _ := filepath.Glob(filepath.Join(escape(c.config.Dir), "*", manifest.FileName))
	own, _ := filepath.Glob(filepath.Join(escape(c.config.Dir), "*"+manifest.FileName))
	var all []Entry
	for _, path := range append(own, paths...) {
		if base := filepath.Base(path); base == manifest.FileName || strings.HasSuffix(base, "."+manifest.FileName) {
			all = append(all, entryOf(path))
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// escape keeps a folder's name from being read as a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
