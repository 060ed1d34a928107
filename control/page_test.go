package control_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/posefleet/posefleet/internal/need"
	"github.com/posefleet/posefleet/protocol"
)

// browser opens pages in a real Chromium.
type browser struct {
	chromium, node, modules string
	// width and scheme are the window's width in pixels, and light or dark; empty means a wide, light one.
	width, scheme string
	// ready is called when the script says tell(); nil means never.
	ready func()
}

func newBrowser(t *testing.T) *browser {
	t.Helper()

	return &browser{
		modules: filepath.Join(need.Node(t), "node_modules"), node: need.Program(t, "node"), chromium: need.Program(t, "chromium"),
	}
}

// look runs a script on a page and reads what it returns. A fault of the page fails the test.
func look[T any](t *testing.T, b *browser, url, script string) T {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), b.node, "testdata/look.cjs", url)
	cmd.Env = append(os.Environ(), "NODE_PATH="+b.modules, "CHROMIUM="+b.chromium, "WIDTH="+b.width, "SCHEME="+b.scheme)
	cmd.Stdin = strings.NewReader(script)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Got    T
		Errors []string
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if lines.Text() == "ready" {
			b.ready()

			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Errorf("%v: %s", err, lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, complaints.String())
	}
	if len(answer.Errors) > 0 {
		t.Fatalf("faults of the page: %q", answer.Errors)
	}

	return answer.Got
}

// film makes a clip of two seconds with 25 frames a second.
func film(t *testing.T, name string, width, height int, codec ...string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	args := []string{"-v", "error", "-f", "lavfi", "-i", fmt.Sprintf("testsrc2=size=%dx%d:rate=25:duration=2", width, height)}
	cmd := exec.CommandContext(t.Context(), need.Program(t, "ffmpeg"), append(append(args, codec...), path)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return body
}

// walker is a pose document in which the athlete, a cross of four points, walks from left to right, and a second person
// stands still in the first half. Frame i has the athlete's middle at x = 20+4i, y = height/2.
func walker(clips map[string][2]int) string {
	var parts []string
	for _, id := range []string{"c1", "c2"} {
		size, ok := clips[id]
		if !ok {
			continue
		}
		var frames []string
		for i := range 50 {
			x, y := 20+4*i, size[1]/2
			people := fmt.Sprintf(`{"track":7,"score":0.9,"box":[0,0,1,1],"keypoints":[[%d,%d,0.9],[%d,%d,0.9],[%d,%d,0.9],[%d,%d,0.9],null]}`,
				x-10, y, x+10, y, x, y-10, x, y+10)
			if i < 25 {
				people += fmt.Sprintf(`,{"track":2,"score":0.9,"box":[0,0,1,1],"keypoints":[[%d,5,0.9],[%d,15,0.05],null,null,null]}`, size[0]-8, size[0]-8)
			}
			frames = append(frames, fmt.Sprintf(`{"t":%d,"people":[%s]}`, 40*i, people))
		}
		parts = append(parts, fmt.Sprintf(`{"id":%q,"media":{"width":%d,"height":%d,"durationMs":2000},"athlete":{"track":7},"frames":[%s]}`,
			id, size[0], size[1], strings.Join(frames, ",")))
	}

	return fmt.Sprintf(`{"schema":"posefleet.pose/1","skeleton":{"name":"x","keypoints":["a","b","c","d","e"],"edges":[[0,1],[2,3],[3,4]]},"clips":[%s]}`,
		strings.Join(parts, ","))
}

// clipSpec is a clip to be created.
type clipSpec struct {
	id, name, contentType string
	body                  []byte
}

// filmed creates and submits an analysis of real clips.
func (b *bundle) filmed(t *testing.T, id string, clips ...clipSpec) {
	t.Helper()
	var list []any
	for _, c := range clips {
		list = append(list, map[string]any{"id": c.id, "name": c.name, "size": len(c.body), "sha256": sum(c.body), "contentType": c.contentType})
	}
	got := decode[created](t, b.api(t, http.MethodPost, "/v1/analyses", map[string]any{"analysisId": id, "clips": list}).want(t, http.StatusCreated, ""))
	for i, u := range got.Uploads {
		b.put(t, u.URL, u.Headers, clips[i].body)
	}
	b.api(t, http.MethodPost, "/v1/analyses/"+id+"/submit", map[string]string{"dispatch": "none"}).want(t, http.StatusAccepted, "")
}

// deliver redeems and delivers a pose document.
func (b *bundle) deliver(t *testing.T, id, doc string) {
	t.Helper()
	c := b.redeem(t, redeemRequest(id, "w1", 1))
	b.report(t, c, completed(c, b.artifact(t, c, poseBytes(t, doc)))).want(t, http.StatusOK, "")
}

// painted is what of the skeleton is on the canvas, in the clip's pixels, with the counters for tests beside it.
const painted = `
	const painted = () => page.evaluate(() => {
		const canvas = document.querySelector('canvas#skeleton');
		const { width, height } = canvas;
		const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
		let [left, top, right, bottom] = [width, height, -1, -1];
		for (let i = 3, n = 0; i < data.length; i += 4, n++) {
			if (data[i] < 128) continue;
			const [x, y] = [n % width, Math.floor(n / width)];
			left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
		}
		const video = document.querySelector('video#clip');
		const box = canvas.getBoundingClientRect(), stage = (video.hidden ? canvas.parentElement : video).getBoundingClientRect();
		return {
			left: left / width, top: top / height, right: right / width, bottom: bottom / height,
			covers: Math.abs(box.width - stage.width) < 1 && Math.abs(box.height - stage.height) < 1,
			frames: Number(canvas.dataset.frames), drawn: Number(canvas.dataset.drawn), people: Number(canvas.dataset.people),
			frame: Number(canvas.dataset.frame), time: video.currentTime, clock: document.getElementById('clock').textContent,
		};
	});
	const drawn = () => page.waitForFunction(() => Number(document.querySelector('canvas#skeleton').dataset.drawn) > 0);
	// The films have 25 pictures a second. On a slow machine a picture is shown, and drawn on, some time after it was asked for.
	const reached = (frame) => page.waitForFunction((frame) => Number(document.querySelector('canvas#skeleton').dataset.frame) === frame, frame);
	const seek = async (at) => {
		await page.evaluate((at) => new Promise((resolve) => {
			const video = document.querySelector('video#clip');
			video.pause();
			video.addEventListener('seeked', () => requestAnimationFrame(() => requestAnimationFrame(resolve)), { once: true });
			video.currentTime = at;
		}), at);
		await reached(Math.floor(25 * at));
		return painted();
	};
`

type paint struct {
	Left, Top, Right, Bottom float64
	Covers                   bool
	Frames, Drawn, People    int
	Frame                    int
	Time                     float64
	Clock                    string
}

// wantAthlete checks that the athlete of frame i is drawn in its place on a picture of that size.
func (p paint) wantAthlete(t *testing.T, i, width, height int) {
	t.Helper()
	x, y := float64(20+4*i)/float64(width), 0.5
	near := func(got, want, slack float64) bool { return got > want-slack && got < want+slack }
	slackX, slackY := 4/float64(width), 4/float64(height)
	left, right := x-10/float64(width), x+10/float64(width)
	if p.Frame != i || !near(p.Left, left, slackX) || (p.People == 1 && !near(p.Right, right, slackX)) ||
		(p.People == 1 && !near((p.Top+p.Bottom)/2, y, slackY)) {
		t.Errorf("frame %d is drawn as %+v, wanted x from %.3f to %.3f", i, p, left, right)
	}
	if p.Frames != 50 || p.Drawn == 0 || !p.Covers {
		t.Errorf("%+v", p)
	}
}

// The page plays the clip with the skeleton on it, each frame in its place, and changes between clips.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	h264 := []string{"-c:v", "libx264", "-pix_fmt", "yuv420p", "-movflags", "+faststart"}
	b.filmed(t, "an_1",
		clipSpec{"c1", "wide.mp4", "video/mp4", film(t, "a.mp4", 320, 180, h264...)},
		clipSpec{"c2", "<img src=x onerror=alert(1)>.mp4", "video/mp4", film(t, "b.mp4", 240, 320, h264...)})
	b.deliver(t, "an_1", walker(map[string][2]int{"c1": {320, 180}, "c2": {240, 320}}))
	got := look[struct {
		State, Title, Second, People string
		Playing, Seek10, Seek40      paint
		Other                        paint
		Stepped                      paint
		Hidden                       paint
	}](t, chrome, b.URL()+"/analyses/an_1", painted+`
		await drawn();
		await page.evaluate(() => document.querySelector('video#clip').play());
		await page.waitForFunction(() => document.querySelector('video#clip').currentTime > 0.3 && Number(document.querySelector('canvas').dataset.drawn) > 3);
		const playing = await painted();
		const seek10 = await seek(0.41), seek40 = await seek(1.61);
		await page.keyboard.press('.');
		await reached(41);
		const stepped = await painted();
		await page.keyboard.press('s');
		const hidden = await painted();
		await page.keyboard.press('s');
		const second = await page.textContent('#clips button:nth-child(2)');
		await page.click('#clips button:nth-child(2)');
		await page.waitForFunction(() => document.querySelector('video#clip').videoHeight === 320 && document.querySelector('video#clip').readyState >= 2);
		const other = await seek(0.81);
		return { state: await page.textContent('#state'), title: await page.title(), people: await page.textContent('#people'),
			playing, seek10, seek40, stepped, hidden, second, other };
	`)
	if got.State != "delivered" || got.Title != "wide.mp4 – posefleet" || got.Second != "<img src=x onerror=alert(1)>.mp4" {
		t.Errorf("%q %q %q", got.State, got.Title, got.Second)
	}
	if !strings.HasPrefix(got.People, "athlete 7, 50 frames") || !strings.Contains(got.People, "person 2, 25 frames") {
		t.Errorf("people: %q", got.People)
	}
	if got.Playing.Drawn < 3 || got.Seek10.People != 2 || got.Seek40.People != 1 {
		t.Errorf("%+v", got)
	}
	got.Seek10.wantAthlete(t, 10, 320, 180)
	got.Seek40.wantAthlete(t, 40, 320, 180)
	got.Stepped.wantAthlete(t, 41, 320, 180)
	got.Other.wantAthlete(t, 20, 240, 320)
	if got.Hidden.Right >= 0 {
		t.Errorf("the skeleton was switched off: %+v", got.Hidden)
	}
}

// A clip that the browser can't play: the skeleton alone with a scrubber, and words that say so; with a rendition, that.
func TestPageUnplayableClip(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	avi := film(t, "a.avi", 320, 180, "-c:v", "mpeg4")
	b.filmed(t, "an_1", clipSpec{"c1", "old.avi", "video/x-msvideo", avi})
	b.deliver(t, "an_1", walker(map[string][2]int{"c1": {320, 180}}))
	got := look[struct {
		Note               string
		VideoHidden        bool
		Scrubbed, Keyed    paint
		Played             paint
		State, PlayCaption string
	}](t, chrome, b.URL()+"/analyses/an_1", painted+`
		await drawn();
		await page.waitForSelector('#scrubber');
		await page.fill('#scrubber', '805');
		await reached(20);
		const scrubbed = await painted();
		await page.focus('#scrubber');
		for (let i = 0; i < 40; i++) await page.keyboard.press('ArrowRight');
		await reached(21);
		const keyed = await painted();
		await page.click('#play');
		await page.waitForFunction(() => Number(document.querySelector('canvas').dataset.frame) > 24);
		const playCaption = await page.textContent('#play');
		return { note: await page.textContent('#note'), videoHidden: await page.isHidden('video#clip'), scrubbed, keyed, played: await painted(),
			state: await page.textContent('#state'), playCaption };
	`)
	if !got.VideoHidden || !strings.Contains(got.Note, "can't play") || !strings.Contains(got.Note, "alone") || got.State != "delivered" {
		t.Errorf("%+v", got)
	}
	got.Scrubbed.wantAthlete(t, 20, 320, 180)
	got.Keyed.wantAthlete(t, 21, 320, 180)
	if got.PlayCaption != "Pause" && got.Played.Frame < 49 {
		t.Errorf("it does not play: %+v", got)
	}

	preview := film(t, "p.mp4", 320, 180, "-c:v", "libx264", "-pix_fmt", "yuv420p")
	r := b.api(t, http.MethodPost, "/v1/analyses/an_1/clips/c1/preview", map[string]any{"size": len(preview), "sha256": sum(preview), "contentType": "video/mp4"})
	u := decode[struct {
		URL     string
		Headers map[string]string
	}](t, r.want(t, http.StatusOK, ""))
	b.put(t, u.URL, u.Headers, preview)
	playable := look[paint](t, chrome, b.URL()+"/analyses/an_1", painted+`
		await drawn();
		return seek(0.41);
	`)
	playable.wantAthlete(t, 10, 320, 180)
}

// An open page follows the analysis to its result without a reload; the list shows what is new.
func TestPageIsLive(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	b.filmed(t, "an_1", clipSpec{"c1", "a.mp4", "video/mp4", film(t, "a.mp4", 320, 180, "-c:v", "libx264", "-pix_fmt", "yuv420p")})
	chrome.ready = func() { b.deliver(t, "an_1", walker(map[string][2]int{"c1": {320, 180}})) }
	got := look[struct {
		Before, After string
		Kinds         []string
		Drawn         paint
	}](t, chrome, b.URL()+"/analyses/an_1", painted+`
		const before = await page.textContent('#state');
		await page.evaluate(() => { window.stayed = true; });
		tell();
		await page.waitForFunction(() => document.getElementById('state').textContent === 'delivered');
		await page.waitForSelector('#timeline li[data-kind=delivered]', { state: 'attached' });
		await drawn();
		if (!await page.evaluate(() => window.stayed)) throw new Error('the page was loaded anew');
		const kinds = await page.$$eval('#timeline li', (all) => all.map((li) => li.dataset.kind));
		return { before, after: await page.textContent('#state'), kinds, drawn: await seek(0.41) };
	`)
	if got.Before != "queued" || got.After != "delivered" || strings.Join(got.Kinds, " ") != "created submitted redeemed artifact_granted delivered" {
		t.Errorf("%+v", got)
	}
	got.Drawn.wantAthlete(t, 10, 320, 180)

	chrome.ready = func() { b.queued(t, "an_2") }
	rows := look[[]string](t, chrome, b.URL()+"/", `
		tell();
		await page.waitForSelector('tr[data-analysis=an_2][data-status=queued]');
		return page.$$eval('#analyses tbody tr', (all) => all.map((tr) => tr.dataset.analysis + ' ' + tr.dataset.status));
	`)
	if strings.Join(rows, ", ") != "an_2 queued, an_1 delivered" && strings.Join(rows, ", ") != "an_1 delivered, an_2 queued" {
		t.Errorf("%q", rows)
	}
}

// On a phone nothing sticks out, and dark is dark.
func TestPageOnAPhone(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	chrome.width = "360"
	b := setup(t, nil)
	long := "an_" + strings.Repeat("x", 125)
	b.filmed(t, long, clipSpec{"c1", strings.Repeat("long name ", 20), "video/mp4", film(t, "a.mp4", 320, 180, "-c:v", "libx264", "-pix_fmt", "yuv420p")})
	b.deliver(t, long, walker(map[string][2]int{"c1": {320, 180}}))
	backs := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		chrome.scheme = scheme
		for _, path := range []string{"/", "/analyses/" + long} {
			got := look[struct {
				Wide int
				Back string
			}](t, chrome, b.URL()+path, `
				await page.waitForFunction(() => !document.getElementById('controls') || !document.getElementById('controls').hidden);
				return page.evaluate(() => ({ wide: document.documentElement.scrollWidth, back: getComputedStyle(document.body).backgroundColor }));
			`)
			if got.Wide > 360 {
				t.Errorf("%s is %d pixels wide", path[:min(len(path), 12)], got.Wide)
			}
			backs[scheme] = got.Back
		}
	}
	if backs["light"] == backs["dark"] {
		t.Errorf("light and dark are both %s", backs["light"])
	}
}

// What a reader without scripts gets, and the headers that hold a browser to it.
func TestPagePlain(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	b.delivered(t, "an_1")
	r := b.do(t, http.MethodGet, "/analyses/an_1", nil, nil)
	for _, want := range []string{
		`<strong id="state" class="state" data-status="delivered" role="status">delivered</strong>`, `src="/v1/analyses/an_1/clips/c1"`,
		`<canvas id="skeleton" data-frames="0" data-drawn="0"`, `data-kind="delivered"`,
	} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || r.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q", policy)
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`).FindAllStringSubmatch(string(r.body), -1) {
		s := b.do(t, http.MethodGet, strings.ReplaceAll(link[1], "&amp;", "&"), nil, nil)
		if s.status != http.StatusOK || !strings.Contains(s.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %s", link[1], s.status, s.header.Get("Cache-Control"))
		}
	}
	list := b.do(t, http.MethodGet, "/", nil, nil)
	if !strings.Contains(string(list.body), `href="/analyses/an_1"`) {
		t.Error("the list lacks the analysis")
	}
	for path, status := range map[string]int{"/analyses/nobody": 404, "/?cursor=!!": 400, "/static/nothing.js": 404, "/favicon.ico": 200} {
		if r := b.do(t, http.MethodGet, path, nil, nil); r.status != status {
			t.Errorf("%s: %d", path, r.status)
		}
	}
	b.do(t, http.MethodPost, "/login", nil, nil).want(t, http.StatusForbidden, protocol.CodeUnauthorized)
}
