package cron

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posefleet/posefleet/internal/child"
	"github.com/posefleet/posefleet/internal/need"
)

var (
	cases = flag.Int("cron.cases", 600, "random patterns that are compared with cron-parser")
	seed  = flag.Uint64("cron.seed", 1, "seed of the random patterns")
)

// zones with all kinds of clock changes: by one hour, half an hour (Lord Howe) and two (Troll), at midnight, over midnight, into the day
// before, in the southern summer, and none.
var zones = []string{
	"UTC", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Los_Angeles", "America/St_Johns",
	"America/Havana", "America/Santiago", "America/Sao_Paulo", "Atlantic/Azores", "Africa/Cairo", "Africa/Johannesburg", "Asia/Beirut",
	"Asia/Jerusalem", "Asia/Tehran", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "Australia/Sydney", "Australia/Lord_Howe",
	"Australia/Adelaide", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Apia", "Pacific/Easter", "Antarctica/Troll", "Europe/Chisinau",
}

type question struct {
	Pattern string `json:"pattern"`
	TZ      string `json:"tz"`
	From    int64  `json:"from"`
	Count   int    `json:"count"`
	Seed    string `json:"seed,omitempty"`
}

type answer struct {
	Times []int64 `json:"times"`
	Error string  `json:"error"`
}

// askNode puts all questions to cron-parser.
func askNode(t *testing.T, questions []question) []answer {
	t.Helper()

	cmd := exec.Command(need.Program(t, "node"), "testdata/cron.cjs", "bullmq6")
	cmd.Env = append(cmd.Environ(), "NODE_PATH="+filepath.Join(need.Node(t), "node_modules"))

	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	proc, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(proc.Kill)

	go func() { // ends with the last question, or when node does
		enc := json.NewEncoder(in)
		for _, q := range questions {
			if enc.Encode(q) != nil {
				break
			}
		}

		_ = in.Close()
	}()

	var answers []answer

	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}

		answers = append(answers, a)
	}

	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions: %s", len(answers), len(questions), proc.Output())
	}

	return answers
}

// ours is what this package answers.
func ours(t *testing.T, q question) (times []int64, err error) {
	t.Helper()

	s, err := Parse(q.Pattern, q.Seed)
	if err != nil {
		return nil, err
	}

	loc, err := Zone(q.TZ)
	if err != nil {
		t.Fatal(err)
	}

	for at := time.UnixMilli(q.From); len(times) < q.Count; {
		next, ok := s.Next(at, loc)
		if !ok {
			break
		}

		times = append(times, next.UnixMilli())
		at = next
	}

	return times, nil
}

func compare(t *testing.T, questions []question) (refused int) {
	t.Helper()

	bad := 0

	for i, theirs := range askNode(t, questions) {
		q := questions[i]
		times, err := ours(t, q)

		switch {
		case (err != nil) != (theirs.Error != ""):
			t.Errorf("%q: error %v, cron-parser %q", q.Pattern, err, theirs.Error)
		case err != nil:
			refused++
			continue
		case !slices.Equal(times, theirs.Times):
			t.Errorf("%q in %s after %s:\n ours  %s\n theirs %s", q.Pattern, q.TZ, show(q, []int64{q.From}), show(q, times), show(q, theirs.Times))
		default:
			continue
		}

		if bad++; bad == 10 {
			t.Fatal("and so on")
		}
	}

	return refused
}

func show(q question, times []int64) string {
	loc, _ := Zone(q.TZ)

	var all []string
	for _, ms := range times {
		all = append(all, time.UnixMilli(ms).In(loc).Format("Mon 2006-01-02T15:04:05.000Z07:00"))
	}

	return strings.Join(all, " ")
}

// Random patterns in random zones over twenty years, half of them near a change of the clocks. With the flags cron.cases and cron.seed the
// test runs longer, on other patterns.
func TestRandomPatternsAsCronParser(t *testing.T) {
	t.Parallel()

	r := rand.New(rand.NewPCG(*seed, 1))
	questions := make([]question, *cases)

	for i := range questions {
		zone := zones[r.IntN(len(zones))]
		questions[i] = question{Pattern: randomPattern(r), TZ: zone, From: randomMoment(t, r, zone), Count: 4, Seed: randomSeed(r)}
	}

	refused := compare(t, questions)
	t.Logf("%d patterns compared, %d of them refused by both", len(questions), refused)

	if refused > len(questions)/4 {
		t.Error("most patterns should be good ones")
	}
}

func randomSeed(r *rand.Rand) string {
	return []string{"mail", "Ünïcödé 😀", "a", strings.Repeat("long ", 50)}[r.IntN(4)] + strconv.Itoa(r.IntN(1000))
}

func randomMoment(t *testing.T, r *rand.Rand, zone string) int64 {
	t.Helper()

	loc, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}

	at := time.UnixMilli(time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() + r.Int64N(20*365*86400*1000)).In(loc)
	if r.IntN(2) == 0 {
		if _, end := at.ZoneBounds(); !end.IsZero() && end.Year() < 2037 {
			at = end.Add(time.Duration(r.Int64N(int64(30*time.Hour))) - 27*time.Hour)
		}
	}

	if r.IntN(3) == 0 {
		at = at.Truncate(15 * time.Minute)
	}

	return at.UnixMilli()
}

func randomPattern(r *rand.Rand) string {
	texts := make([]string, len(fields))
	for i := range texts {
		texts[i] = randomField(r, i)
	}

	// Long waits are found, too, but take cron-parser long.
	if r.IntN(3) > 0 {
		texts[placeMonth] = "*"
	}

	if r.IntN(2) == 0 {
		texts[0] = "0"
	}

	first := []int{0, 1, 1, 1}[r.IntN(4)]

	return strings.Join(texts[first:], " ")
}

func randomField(r *rand.Rand, place int) string {
	f := &fields[place]
	value := func() int { return f.min + r.IntN(f.max-f.min+1) }

	switch r.IntN(11) {
	case 10:
		return hashedField(r, f)
	case 0, 1, 2:
		return []string{"*", "*", "*", "?"}[r.IntN(4)]
	case 3, 4:
		return strconv.Itoa(value())
	case 5:
		return fmt.Sprintf("*/%d", 1+r.IntN(f.max/2))
	case 6:
		from := value()
		return fmt.Sprintf("%d-%d", from, from+r.IntN(f.max-from+1))
	case 7:
		from := value()
		return fmt.Sprintf("%d-%d/%d", from, from+r.IntN(f.max-from+1), 1+r.IntN(7))
	case 8:
		return fmt.Sprintf("%d,%d", value(), value())
	}

	return specialField(r, place)
}

// hashedField is an H, at times of a range that is too wide or the wrong way round.
func hashedField(r *rand.Rand, f *field) string {
	from := r.IntN(f.max)
	span := fmt.Sprintf("(%d-%d)", from, from+r.IntN(f.max)-f.max/8)
	step := fmt.Sprintf("/%d", 1+r.IntN(f.max))

	return []string{"H", "H" + span, "H" + step, "H" + span + step, "H,H/" + strconv.Itoa(f.max)}[r.IntN(5)]
}

func specialField(r *rand.Rand, place int) string {
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }

	switch place {
	case placeDay:
		return pick("L", "L,15", "15L", "31", "29-31", "1/10")
	case placeMonth:
		return pick("jan", "JAN,jul", "feb-Apr", "2", "*/6", "mon", "dec-jan")
	case placeWeekday:
		return pick("5L", "friL", "MON-fri", "sun", "7", "0,7", "5#3", "fri#5", "1#1", "1L,3", "5-7", "6-7/1", "L", "7L", "1,3#2", "*#2", "5#6")
	}

	return pick("5/20", "0-5,10", "23", "2", "1,2,3", "0", "a", "-1", "99", "2-1", "1,,2", "*/0", "1-3-5", "1/2/3", "*,1")
}

func TestKnownPatterns(t *testing.T) {
	t.Parallel()

	from := time.Date(2026, 10, 24, 23, 30, 0, 1e6, time.UTC).UnixMilli() // before the clocks go back in Europe

	var questions []question
	for _, pattern := range []string{
		"@daily", "@yearly", "@weekends", "@nothing", "", "* * * * * * *", "0 0 29 2 *", "0 0 30 2 *", "0 0 31 4,6 1", "0 0 L 2 *",
		"30 2 * * *", "*/10 2 * * *", "*/10 * * * *", "0 1-3 * * *", "30 * * * * *", "* * * * * *", "5", "0 12", "0 0 13 * 5", "0 0 ? * 1#2",
		"0 0 L * 5L", strings.Repeat("1", 1025),
	} {
		questions = append(questions, question{Pattern: pattern, TZ: "Europe/Berlin", From: from, Count: 20})
	}

	for i, theirs := range askNode(t, questions) {
		q := questions[i]
		if q.Pattern == "" || q.Pattern == "@nothing" {
			continue // cron-parser takes an empty pattern for "every minute"; BullMQ and we don't
		}

		times, err := ours(t, q)
		if (err != nil) != (theirs.Error != "") || !slices.Equal(times, theirs.Times) {
			t.Errorf("%q: ours %s, %v; theirs %s, %s", q.Pattern, show(q, times), err, show(q, theirs.Times), theirs.Error)
		}
	}
}

func TestBadPatterns(t *testing.T) {
	t.Parallel()

	for _, pattern := range []string{"", "@nothing", "* * * * * * *", "x * * * *", "0 0 30 2 *", "60 * * * *", "H(9-5) * * * *", "H/0 * * * *"} {
		if _, err := Parse(pattern, ""); !errors.Is(err, ErrPattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestZone(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]int{
		"UTC": 0, "utc": 0, "GMT": 0, "UTC+5": 5 * 3600, "utc-3:30": -(3*3600 + 1800), "UTC-0:30": -1800, "Asia/Kolkata": 19800,
	} {
		loc, err := Zone(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		if _, got := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).In(loc).Zone(); got != want {
			t.Errorf("%s is %d s off UTC, want %d", name, got, want)
		}
	}

	if _, err := Zone("Mars/Olympus"); err == nil {
		t.Error("a zone that does not exist is taken")
	}
}

// Whatever is read has a next time after the moment asked for, or never fires.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"0 0 1 1 *", "*/5 1-3 L 2 5#3", "@daily", "1L", "0 0 31 2 7L"} {
		f.Add(pattern)
	}

	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

	f.Fuzz(func(t *testing.T, pattern string) {
		s, err := Parse(pattern, "seed")
		if err != nil {
			return
		}

		if next, ok := s.Next(at, time.UTC); ok && !next.After(at) {
			t.Errorf("%q fires at %v, which is not after %v", pattern, next, at)
		}
	})
}
