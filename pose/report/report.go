package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/posefleet/posefleet/internal/player"
)

//go:embed static
var files embed.FS

// Page is what a report says.
type Page struct {
	// Title is the clip's name.
	Title string
	// Facts are the lines of the summary.
	Facts []Fact
	Video Video
	// Document writes the pose document, whose first clip the report is about, with smoothed points and angles.
	Document func(io.Writer) error
}

// Fact is a line of the summary.
type Fact struct{ Name, Value string }

// Video is the clip. Without both URL and Data the skeletons are shown alone.
type Video struct {
	// URL is relative to the report.
	URL string
	// Type is the media type.
	Type string
	// Data, if set, is the clip itself, which is put into the report in place of URL.
	Data io.Reader
}

// RelativeURL is the address of the file clip as seen from the file report; both are paths.
func RelativeURL(report, clip string) (string, error) {
	from, err1 := filepath.Abs(filepath.Dir(report))
	to, err2 := filepath.Abs(clip)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	rel, err := filepath.Rel(from, to)
	if err != nil {
		return "", err
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	// "./" keeps a colon in the name from making it an address of its own.
	return "./" + strings.Join(parts, "/"), nil
}

// Write writes the report. It keeps neither the clip nor the document in memory.
func Write(w io.Writer, p Page) error {
	script, style, err := parts()
	if err != nil {
		return err
	}
	top, err := template.ParseFS(files, "static/report.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	data := struct {
		Page
		Policy template.HTMLAttr
		Style  template.CSS
	}{p, template.HTMLAttr(`content="` + policy(script, style) + `"`), template.CSS(style)}
	if err := top.ExecuteTemplate(w, "top", data); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := p.Video.write(w); err != nil {
		return fmt.Errorf("report: clip: %w", err)
	}
	if err := top.ExecuteTemplate(w, "middle", data); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := p.document(w); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = io.WriteString(w, `<script type="module">`+script+"</script>\n</body>\n</html>\n")
	return err
}

// document writes the pose document as data: its encoder escapes what could end the element.
func (p Page) document(w io.Writer) error {
	if _, err := io.WriteString(w, `<script type="application/json" id="pose">`); err != nil {
		return err
	}
	if err := p.Document(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</script>\n")
	return err
}

// write writes the video element.
func (v Video) write(w io.Writer) error {
	const open = `<video id="clip" controls playsinline muted preload="auto" controlslist="nofullscreen nodownload" data-type="%s"`
	if _, err := fmt.Fprintf(w, open, template.HTMLEscapeString(v.Type)); err != nil {
		return err
	}
	switch {
	case v.Data != nil:
		if err := v.inline(w); err != nil {
			return err
		}
	case v.URL != "":
		if _, err := fmt.Fprintf(w, ` src="%s"`, template.HTMLEscapeString(v.URL)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, ">Your browser plays no video.</video>\n")
	return err
}

func (v Video) inline(w io.Writer) error {
	if _, err := fmt.Fprintf(w, ` src="data:%s;base64,`, template.HTMLEscapeString(v.Type)); err != nil {
		return err
	}
	e := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := io.Copy(e, v.Data); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, `"`)
	return err
}

// parts are script and style. Modules become one script: what they export and import is in it.
func parts() (script, style string, err error) {
	var js, css strings.Builder
	for _, f := range []struct {
		from embed.FS
		name string
		to   *strings.Builder
	}{
		{player.Files, "pose.js", &js},
		{player.Files, "player.js", &js},
		{player.Files, "curves.js", &js},
		{files, "static/report.js", &js},
		{player.Files, "page.css", &css},
		{player.Files, "curves.css", &css},
		{files, "static/report.css", &css},
	} {
		body, err := f.from.ReadFile(f.name)
		if err != nil {
			return "", "", fmt.Errorf("report: %w", err)
		}
		f.to.Write(body)
	}
	return exported.ReplaceAllString(imported.ReplaceAllString(js.String(), ""), ""), css.String(), nil
}

var (
	imported = regexp.MustCompile(`(?m)^import .*$`)
	exported = regexp.MustCompile(`(?m)^export `)
)

// policy lets the report use what is in it, and the clip beside it.
func policy(script, style string) string {
	sum := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(h[:]) + "'"
	}
	return "default-src 'none'; script-src " + sum(script) + "; style-src " + sum(style) + "; media-src 'self' data: file:; img-src data:; " +
		"base-uri 'none'; form-action 'none'"
}
