package control_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/posefleet/posefleet/control"
	"github.com/posefleet/posefleet/control/store"
	"github.com/posefleet/posefleet/internal/freeport"
	"github.com/posefleet/posefleet/internal/redistest"
	"github.com/posefleet/posefleet/internal/wait"
)

// bent is walker with the angle of a knee, which grows with the time and is not known in the first frame.
func bent(clips map[string][2]int) string {
	doc := walker(clips)
	for i := range 50 {
		angle := fmt.Sprintf(`,"angles":[[%d,2],"missing"]`, 60+i)
		if i == 0 {
			angle = `,"angles":["view","missing"]`
		}
		doc = strings.ReplaceAll(doc, fmt.Sprintf(`{"t":%d,"people":[{"track":7`, 40*i), fmt.Sprintf(`{"t":%d,"people":[{"track":7%s`, 40*i, angle))
	}

	return strings.ReplaceAll(doc, `"athlete":{"track":7}`, `"athlete":{"track":7},"signal":{"timeScale":1,"rate":25,"angles":[
		{"name":"left_knee","kind":"joint","range":[0,180],"zero":"straight"},{"name":"right_knee","kind":"joint","range":[0,180],"zero":"straight"}]}`)
}

// One analysis shows its angles beside the clip, and everything that touched it.
func TestPageShowsRecord(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	b.filmed(t, "an_1", clipSpec{"c1", "a.mp4", "video/mp4", film(t, "a.mp4", 320, 180, "-c:v", "libx264", "-pix_fmt", "yuv420p")})
	b.redeem(t, redeemRequest("an_1", "w0", 1)) // taken over by the one that delivers
	c := b.redeem(t, redeemRequest("an_1", "w1", 2))
	b.report(t, c, completed(c, b.artifact(t, c, poseBytes(t, bent(map[string][2]int{"c1": {320, 180}}))))).want(t, http.StatusOK, "")
	wait.For(t, patience, func() bool { return len(b.record(t, "an_1").Ledger) == 3 }, "the ledger is not complete") // the notice is the run's last step
	got := look[struct {
		Points                        int
		Value, Person                 string
		Executions, Credits, Timeline []string
		Ledger                        []string
	}](t, chrome, b.URL()+"/analyses/an_1", painted+`
		await drawn();
		await page.waitForSelector('#angles:not([hidden]) .plot canvas[data-points]');
		await seek(1.01);
		await page.focus('.plot');
		await page.keyboard.press('ArrowRight');
		await page.waitForFunction(() => document.querySelector('.plot').ariaValueNow === '26');
		const rows = (css) => page.$$eval(css, (all) => all.map((tr) => [...tr.querySelectorAll('td:not([data-label=Began]):not([data-label=Ended]):not([data-label=At]):not([data-label=Expires]):not([data-label=Reserved]):not([data-label=Closed])')].map((td) => td.innerText.trim()).join('|')));
		return {
			points: Number(await page.getAttribute('.plot canvas', 'data-points')), value: await page.evaluate(() => document.querySelector('.plot').ariaValueText),
			person: await page.evaluate(() => document.querySelector('#person').selectedOptions[0].text),
			executions: await rows('#executions tbody tr'), credits: await rows('#credits tbody tr'), ledger: await rows('#ledger tbody tr'),
			timeline: await page.$$eval('#timeline li', (all) => all.map((li) => li.dataset.kind)),
		};
	`)
	if got.Points != 49 || !strings.Contains(got.Value, "left 86° ± 2") || !strings.Contains(got.Value, "right – (point missing)") || got.Person != "athlete 7 (50 frames)" {
		t.Errorf("%+v", got)
	}
	for name, c := range map[string]struct{ want, got []string }{
		"executions": {[]string{"1|w0|queue|1|taken over by epoch 2", "2|w1|queue|2|delivered"}, spaced(got.Executions)},
		"credits":    {[]string{"0|default|settled"}, got.Credits},
		"ledger":     {[]string{"credit.reserve|0|default", "credit.settle|0|settled", "notice|0|delivered"}, got.Ledger},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// spaced makes one space of each run of white space.
func spaced(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.Join(strings.Fields(l), " ")
	}

	return lines
}

// An operator retries a failed analysis from the keyboard; the page says who did it, and goes on following.
func TestPageRetry(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	b.failed(t, "an_1")
	chrome.ready = func() { b.redeem(t, redeemRequest("an_1", "w2", 2)) }
	got := look[struct {
		Before, After string
		Line, Worker  string
		Buttons       []string
	}](t, chrome, b.URL()+"/analyses/an_1", `
		const before = await page.textContent('#state');
		await page.focus('form.action input[name=reason]');
		await page.keyboard.type('the bucket was away');
		await page.keyboard.press('Tab');
		await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
		const after = await page.textContent('#state');
		const line = await page.innerText('#timeline li[data-kind=retried]');
		tell();
		await page.waitForFunction(() => document.getElementById('state').textContent === 'processing');
		await page.waitForSelector('#executions tr[data-epoch="2"]');
		return { before, after, line, worker: await page.innerText('#executions tr[data-epoch="2"] td[data-label=Worker]'),
			buttons: await page.$$eval('form.action button', (all) => all.map((b) => b.innerText)) };
	`)
	if got.Before != "failed" || got.After != "queued" || !strings.Contains(got.Line, "by loopback") || !strings.Contains(got.Line, "the bucket was away") ||
		got.Worker != "w2" || strings.Join(got.Buttons, " ") != "Cancel" {
		t.Errorf("%+v", got)
	}
}

// The list finds what it is asked for, page by page, and follows.
func TestPageFinds(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	for i := range 60 {
		b.api(t, http.MethodPost, "/v1/analyses", newAnalysis(fmt.Sprintf("an_%02d", i))).want(t, http.StatusCreated, "")
	}
	b.failed(t, "other_1")
	chrome.ready = func() {
		b.api(t, http.MethodPost, "/v1/analyses/an_05/cancel", nil).want(t, http.StatusAccepted, "")
	}
	got := look[struct {
		First, Second, Failed int
		FailedID, Title       string
		Cancelled             string
	}](t, chrome, b.URL()+"/", `
		const rows = () => page.$$eval('#analyses tbody tr[data-analysis]', (all) => all.length);
		const first = await rows();
		await Promise.all([page.waitForNavigation(), page.click('a[rel=next]')]);
		const second = await rows();
		await page.selectOption('select[name=status]', 'failed');
		await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter').then(() => page.click('form.filter button'))]);
		const failed = await rows();
		const failedID = await page.getAttribute('#analyses tbody tr', 'data-analysis');
		await page.selectOption('select[name=status]', '');
		await page.fill('input[name=id]', 'an_0');
		await Promise.all([page.waitForNavigation(), page.click('form.filter button')]);
		await page.waitForSelector('tr[data-analysis=an_05][data-status=uploading]');
		tell();
		await page.waitForSelector('tr[data-analysis=an_05][data-status=cancelled]');
		return { first, second, failed, failedID, title: await page.title(), cancelled: await page.innerText('tr[data-analysis=an_05] .state') };
	`)
	if got.First != 50 || got.Second != 11 || got.Failed != 1 || got.FailedID != "other_1" || got.Cancelled != "cancelled" {
		t.Errorf("%+v", got)
	}
}

// Where changes come faster than answers, each answer is shown all the same, and one more is asked for.
func TestPageFollowsFastChanges(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	b := setup(t, nil)
	b.submitted(t, "an_1")
	got := look[struct {
		First, Last bool
		Sent        int
	}](t, chrome, b.URL()+"/", `
		await page.route('**/v1/live*', (route) => route.fulfill({ status: 204 })); // the test itself tells of changes
		await page.reload();
		return await page.evaluate(async () => {
			const { refresh } = await import('/static/follow.js');
			const live = document.getElementById('live');
			const plain = window.fetch;
			const waiting = [];
			let sent = 0;
			window.fetch = (...request) => new Promise((resolve) => {
				sent++;
				waiting.push(() => resolve(plain(...request)));
			});
			const stale = () => {
				const mark = document.createElement('i');
				live.append(mark);
				return () => new Promise((gone) => {
					const tried = new MutationObserver(() => { if (!mark.isConnected) gone(true); });
					tried.observe(live, { childList: true });
					setTimeout(() => gone(false), 60000);
				});
			};
			const first = stale();
			const end = [refresh(), refresh(), refresh()];
			const firstGone = first();
			waiting.shift()();
			const out = { first: await firstGone };
			const last = stale()();
			for (const go of waiting) go();
			out.last = await last;
			await Promise.all(end);
			return { ...out, sent };
		});
	`)
	if !got.First || !got.Last || got.Sent != 2 {
		t.Errorf("%+v", got)
	}
}

// censuses writes a history of the queue beside the server.
func (b *bundle) censuses(t *testing.T, n int) {
	t.Helper()
	s, err := store.Open(t.Context(), b.cfg.DatabaseURL, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		at := b.clock.Now().Add(-time.Duration(n-i) * 30 * time.Second)
		if err := s.AddCensus(t.Context(), store.Census{At: at, Waiting: int64(i % 7), Active: 2, Delayed: 1, Workers: int64(1 + i%3)}); err != nil {
			t.Fatal(err)
		}
	}
}

// scaled writes what a fleet's owner decided and saw a while ago.
func (b *bundle) scaled(t *testing.T) {
	t.Helper()
	ago := b.clock.Now().Add(-20 * time.Minute)
	s, err := store.Open(t.Context(), b.cfg.DatabaseURL, store.Options{Now: func() time.Time { return ago }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, leads, err := s.FleetLead(t.Context(), "test", 0, time.Minute)
	if err != nil || !leads {
		t.Fatalf("%v %v", leads, err)
	}
	if err := s.FleetDecide(t.Context(), store.FleetDecision{Epoch: f.Epoch, Desired: 2, Reason: "demand"}); err != nil {
		t.Fatal(err)
	}
	if err := s.FleetSeen(t.Context(), store.FleetSighting{Epoch: f.Epoch, Running: 1, Ready: 1}); err != nil {
		t.Fatal(err)
	}
}

// The fleet's page draws what was counted, and follows the queue.
func TestPageFleet(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	redis := redistest.Start(t)
	b := setup(t, func(c *control.Config) { c.RedisURL = redis.URL })
	b.censuses(t, 40)
	b.scaled(t)
	b.submitted(t, "an_1")
	got := look[struct {
		Depth, Workers, Queued string
		Desired, Running, Size string
		Figures                []string
		Span                   string
	}](t, chrome, b.URL()+"/fleet?since=1h", `
		await page.waitForFunction(() => /Queued\s+1\b/.test(document.querySelector('#live').innerText)); // at first it may know of none
		return { depth: await page.getAttribute('#depth path[data-series=waiting]', 'd'), workers: await page.getAttribute('#workers path[data-series=connected]', 'd'),
			desired: await page.getAttribute('#size path[data-series=desired]', 'd'), running: await page.getAttribute('#size path[data-series=running]', 'd'),
			size: await page.$$eval('.facts div', (all) => all.map((d) => d.innerText.replace(/\s+/g, ' ')).find((x) => x.startsWith('Fleet'))),
			queued: await page.$$eval('.facts div', (all) => all.map((d) => d.innerText.replace(/\s+/g, ' ')).find((x) => x.startsWith('Queued'))),
			figures: await page.$$eval('section:has(#depth) .figures tbody tr', (all) => all.map((tr) => [...tr.children].map((c) => c.innerText.trim()).join(' '))),
			span: await page.inputValue('select[name=since]') };
	`)
	if strings.Count(got.Depth, "L") < 30 || strings.Count(got.Workers, "L") < 30 || got.Queued != "Queued 1" || len(got.Figures) != 3 || got.Span != "1h" ||
		!strings.HasPrefix(got.Figures[0], "waiting ") || !strings.HasSuffix(got.Figures[0], " 0 6") {
		t.Errorf("%+v", got)
	}
	if got.Size != "Fleet 1 running of 2 desired" || !strings.HasSuffix(got.Desired, "L720 8.0") || !strings.HasSuffix(got.Running, "L720 83.5") {
		t.Errorf("%+v", got)
	}
}

// ruled is what axe found on a page, and how it looks.
type ruled struct {
	Violations []string
	Wide       int
	Skip       string
	Outline    string
}

// Every page, in both themes, narrow and wide: every control has a name, contrasts suffice, landmarks and headings are in order, nothing
// sticks out, and the first stop of the keyboard is the way past the header, visibly.
func TestPageAccessible(t *testing.T) {
	t.Parallel()
	chrome := newBrowser(t)
	axe, err := os.ReadFile(filepath.Join(chrome.modules, "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := freeport.Find() // notices go there in vain, so that each outcome can be sent again
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(c *control.Config) {
		c.APIToken, c.NoticeURL, c.NoticeSecrets = token, fmt.Sprintf("http://127.0.0.1:%d", dead), newSecrets(t)
	})
	b.censuses(t, 20)
	b.scaled(t)
	b.failed(t, "an_3")
	b.filmed(t, "an_1", clipSpec{"c1", "a.mp4", "video/mp4", film(t, "a.mp4", 320, 180, "-c:v", "libx264", "-pix_fmt", "yuv420p")})
	b.deliver(t, "an_1", bent(map[string][2]int{"c1": {320, 180}}))
	b.failed(t, "an_2")
	b.api(t, http.MethodPost, "/v1/analyses/an_2/retry", nil).want(t, http.StatusAccepted, "")
	paths, err := json.Marshal([]string{"/", "/?status=failed", "/fleet?since=1h", "/analyses/an_1", "/analyses/an_2", "/analyses/an_3"})
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		chrome.scheme = scheme
		got := look[map[string]ruled](t, chrome, b.URL()+"/", `
			const axe = `+string(mustJSON(t, string(axe)))+`;
			const out = {};
			for (const width of [360, 1280]) for (const path of `+string(paths)+`) {
				if (width > 360 && !['/', '/analyses/an_1'].includes(path)) continue; // the others have no other parts
				await page.setViewportSize({ width, height: 900 });
				await page.goto(new URL(path, page.url()).href, { waitUntil: 'load' });
				if (path.endsWith('an_1')) await page.waitForSelector('#angles:not([hidden])');
				const wide = await page.evaluate(() => document.documentElement.scrollWidth);
				await page.keyboard.press('Tab');
				const [skip, outline] = await page.evaluate(() => [document.activeElement.className, getComputedStyle(document.activeElement).outlineStyle]);
				await page.evaluate(axe);
				const found = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
				out[width + ' ' + path] = { wide, skip, outline, violations: found.violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200))) };
			}
			return out;
		`)
		if len(got) != 8 {
			t.Errorf("%d pages", len(got))
		}
		for page, r := range got {
			width := 1280
			if strings.HasPrefix(page, "360 ") {
				width = 360
			}
			if len(r.Violations) > 0 || r.Wide > width || r.Skip != "skip" || r.Outline == "none" {
				t.Errorf("%s %s: %+v", scheme, page, r)
			}
		}
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}

	return text
}
