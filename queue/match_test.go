package queue

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// golden is a file of observations: what real BullMQ leaves in Redis after some steps.
type golden struct {
	Scenario string          `json:"scenario"`
	Steps    []string        `json:"steps"`
	V6       *observation    `json:"v6.7.0"`
	V5       json.RawMessage `json:"v5.81.5"`
	Observed *observation    `json:"observed"`
}

type observation struct {
	Results json.RawMessage      `json:"results"`
	Keys    map[string]goldenKey `json:"keys"`
	Events  map[string][]string  `json:"events"`
}

type goldenKey struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
	TTL   string          `json:"ttlMs"`
}

// matcher compares what is in Redis with an observation and its placeholders, and collects the differences.
type matcher struct {
	began     time.Time
	unordered bool   // events may come in another order
	slotDelay string // what the golden file holds for a delay until a slot, which is another one each time
	diffs     []string
}

var (
	laterPlace = regexp.MustCompile(`<future-ms>|<slot>`)
	nowPlace   = regexp.MustCompile(`<now(?:\+(\d+))?>`)
	stackPlace = regexp.MustCompile(`^<json array of (\d+) stack strings>$`)
	scorePlace = regexp.MustCompile(`^(.+)\*4096\+(\d+)$`)
	prioPlace  = regexp.MustCompile(`^(\d+)\*2\^32\+(\d+)$`)
)

// slack of a <now>: the golden files round to a second, and the scenario takes a while.
const slack = 15 * time.Second

func (m *matcher) differ(path, format string, args ...any) {
	m.diffs = append(m.diffs, path+": "+fmt.Sprintf(format, args...))
}

func (m *matcher) compare(want *observation, got dump, events func(string) []string) {
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := m.find(want.Keys, key); !ok {
			m.differ(key, "is there, golden has no such key: %v", got[key].value)
		}
	}

	for pattern, g := range want.Keys {
		key := ""

		for _, k := range slices.Sorted(maps.Keys(got)) { // of several iterations the file holds the last one
			if m.text(pattern, k) {
				key = k
			}
		}

		if key == "" {
			m.differ(pattern, "is missing")
			continue
		}

		m.key(key, g, got[key])
	}

	for stream, lines := range want.Events {
		m.lines(stream, lines, events(stream))
	}
}

func (m *matcher) find(keys map[string]goldenKey, name string) (goldenKey, bool) {
	for pattern, g := range keys {
		if m.text(pattern, name) {
			return g, true
		}
	}

	return goldenKey{}, false
}

func (m *matcher) key(path string, g goldenKey, d dumped) {
	if g.Type != d.kind {
		m.differ(path, "type %s, want %s", d.kind, g.Type)
		return
	}

	m.ttl(path, g.TTL, d.ttl)

	switch got := d.value.(type) {
	case string:
		var want any
		_ = json.Unmarshal(g.Value, &want)
		m.scalar(path, want, got)
	case []string:
		m.list(path, g.Value, got)
	case map[string]string:
		m.hash(path, g.Value, got)
	case map[string]float64:
		m.zset(path, g.Value, got)
	}
}

func (m *matcher) ttl(path, want string, got time.Duration) {
	switch {
	case want == "":
		if got != 0 {
			m.differ(path, "ttl %v, want none", got)
		}
	case strings.HasPrefix(want, "~"), strings.HasPrefix(want, "<="):
		limit, err := strconv.Atoi(strings.TrimLeft(want, "~<="))
		if err == nil && (got <= 0 || got.Milliseconds() > int64(limit)) {
			m.differ(path, "ttl %v, want %s", got, want)
		}
	}
}

func (m *matcher) list(path string, raw json.RawMessage, got []string) {
	var want []string
	if err := json.Unmarshal(raw, &want); err != nil || len(want) != len(got) {
		m.differ(path, "%q, want %s", got, raw)
		return
	}

	for i := range want {
		if !m.text(want[i], got[i]) {
			m.differ(path, "%q, want %s", got, raw)
			return
		}
	}
}

func (m *matcher) hash(path string, raw json.RawMessage, got map[string]string) {
	var want map[string]any
	if err := json.Unmarshal(raw, &want); err != nil {
		m.differ(path, "golden: %v", err)
		return
	}

	// Libraries write their own version, or none.
	delete(want, "version")

	for field := range got {
		if _, ok := want[field]; !ok {
			m.differ(path, "field %s=%q, golden has none", field, got[field])
		}
	}

	for field, w := range want {
		g, ok := got[field]
		if !ok {
			m.differ(path, "field %s is missing, want %v", field, w)
			continue
		}

		if parsed, ok := w.(map[string]any); ok {
			m.json(path+"."+field, parsed["(json)"], g)
			continue
		}

		m.scalar(path+"."+field, w, g)
	}
}

// json compares parsed documents; an explicit zero delay or empty id says the same as none.
func (m *matcher) json(path string, want any, text string) {
	var got any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		m.differ(path, "%q: %v", text, err)
		return
	}

	m.value(path, want, got)
}

func (m *matcher) value(path string, want, got any) {
	w, isMap := want.(map[string]any)
	g, gotMap := got.(map[string]any)

	if !isMap || !gotMap {
		m.scalar(path, want, plain(got))
		return
	}

	for _, field := range slices.Sorted(maps.Keys(w)) {
		if _, ok := g[field]; !ok && plain(w[field]) != "0" && w[field] != "" {
			m.differ(path, "%s is missing, want %v", field, w[field])
		}
	}

	for field, v := range g {
		if _, ok := w[field]; !ok {
			m.differ(path, "%s=%v, golden has none", field, v)
			continue
		}

		m.value(path+"."+field, w[field], v)
	}
}

func (m *matcher) zset(path string, raw json.RawMessage, got map[string]float64) {
	var want map[string]any
	if err := json.Unmarshal(raw, &want); err != nil || len(want) != len(got) {
		m.differ(path, "%v, want %s", got, raw)
		return
	}

	for pattern, w := range want {
		found := false

		for member, score := range got {
			if m.text(pattern, member) {
				found = true

				m.score(path+"."+member, w, score)
			}
		}

		if !found {
			m.differ(path, "%v, want %s", got, raw)
		}
	}
}

func (m *matcher) score(path string, want any, got float64) {
	text := plain(want)
	if parts := scorePlace.FindStringSubmatch(text); parts != nil {
		ms := math.Floor(got / 4096)
		if !m.text(parts[1], plain(ms)) || plain(got-ms*4096) != parts[2] {
			m.differ(path, "score %s*4096+%s, want %s", plain(ms), plain(got-ms*4096), text)
		}

		return
	}

	if parts := prioPlace.FindStringSubmatch(text); parts != nil {
		p := math.Floor(got / 4294967296)
		if plain(p) != parts[1] || plain(got-p*4294967296) != parts[2] {
			m.differ(path, "score %s*2^32+%s, want %s", plain(p), plain(got-p*4294967296), text)
		}

		return
	}

	m.scalar(path, want, plain(math.Floor(got)))
}

func (m *matcher) scalar(path string, want any, got string) {
	text := plain(want)
	if parts := stackPlace.FindStringSubmatch(text); parts != nil {
		var stack []string
		if json.Unmarshal([]byte(got), &stack) != nil || strconv.Itoa(len(stack)) != parts[1] {
			m.differ(path, "%q, want %s", got, text)
		}

		return
	}

	if text == "<start-ms mod every>" || text == "~<far>" || text == m.slotDelay {
		if _, err := strconv.ParseFloat(got, 64); err != nil {
			m.differ(path, "%q, want %s", got, text)
		}

		return
	}

	if limit, ok := strings.CutPrefix(text, "~"); ok {
		l, _ := strconv.ParseFloat(limit, 64)
		if g, err := strconv.ParseFloat(got, 64); err != nil || g > l || g < l-float64(slack.Milliseconds()) {
			m.differ(path, "%q, want %s", got, text)
		}

		return
	}

	if !m.text(text, got) {
		m.differ(path, "%q, want %q", got, text)
	}
}

// text reports whether got is the pattern with times near the scenario's in the place of <now…>.
func (m *matcher) text(pattern, got string) bool {
	places := nowPlace.FindAllStringSubmatch(pattern, -1)

	quoted := regexp.QuoteMeta(pattern)
	for _, p := range places {
		quoted = strings.Replace(quoted, regexp.QuoteMeta(p[0]), `(\d{13})(?:\.\d+)?`, 1)
	}

	re := regexp.MustCompile("^" + laterPlace.ReplaceAllString(quoted, `\d{13}`) + "$")

	values := re.FindStringSubmatch(got)
	if values == nil {
		return false
	}

	for i, p := range places {
		plus, _ := strconv.ParseInt(p[1], 10, 64)
		ms, _ := strconv.ParseInt(values[i+1], 10, 64)
		off := time.UnixMilli(ms).Sub(m.began) - time.Duration(plus)*time.Millisecond

		if off.Abs() > slack {
			return false
		}
	}

	return true
}

func (m *matcher) lines(stream string, want, got []string) {
	if m.unordered {
		want, got = slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))
	}

	for i := range max(len(want), len(got)) {
		w, g := "(nothing)", "(nothing)"
		if i < len(want) {
			w = want[i]
		}

		if i < len(got) {
			g = got[i]
		}

		if !m.text(w, g) {
			m.differ(stream, "event %d: %q, want %q", i, g, w)
		}
	}
}

// plain writes whole numbers without exponent.
func plain(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}

	return fmt.Sprint(v)
}
