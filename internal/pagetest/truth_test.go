package pagetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// What makes the engine refuse work is the first that the Overview shows, in red.
func TestTheOverviewBeginsWithWhatStopsTheEngine(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *embedded.Options) {
		o.Memory, o.Dir = false, t.TempDir()
		o.Config.Limits.MinFreeBytes = 1 << 50 // no disk has so much
	})
	p := open(t, desktop, w.url)
	p.see(".panel-stops", "The engine's disk is nearly full")
	p.see(".panel-stops", "nothing new is begun")
	p.see(".panel-stops", "Make room on that disk")
	p.see("nav a[href='#/'] .nav-count", "1")
	p.gone(".panel-needs", "Nothing.")
	var at struct {
		First bool
		Red   string
		Bad   string
	}
	p.eval(`(() => {
		const el = document.querySelector('.panel-stops strong');
		const probe = document.createElement('span');
		probe.className = 'bad';
		document.body.append(probe);
		return { First: document.querySelector('h1').nextElementSibling === document.querySelector('.panel-stops'), Red: getComputedStyle(el).color, Bad: getComputedStyle(probe).color };
	})()`, &at)
	if !at.First || at.Red != at.Bad {
		t.Errorf("it is not the first, or not red: %+v", at)
	}
}

// needsOf are the levels, titles, texts and lists of attention for what is given, as
// JavaScript.
func (p *tab) needsOf(arguments string) (out []string) {
	p.t.Helper()
	p.eval(module("attention.js")+`.then((m) => m.attention(`+arguments+`).map((n) => [n.level + ': ' + n.title, n.text, ...(n.list ?? []).map((of) => (of.name ? of.name + ': ' : '') + of.text)].join(' | ')))`, &out)
	return out
}

// What the engine finds is told in words, each kind as one entry.
func TestWhatNeedsAttentionIsToldInWords(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	p.see(".panel-needs", "Nothing.")
	for _, tc := range []struct{ name, arguments, want string }{
		{"the clock", `{ alarms: [{ code: 'clock_implausible', severity: 'critical', message: 'The clock is wrong.', action: 'Set it right.' }, { code: 'behind', severity: 'warning', message: 'Old.', action: 'Look.' }] }, null`,
			"stop: The clock is wrong. | Set it right. (clock_implausible)\nwarn: Old. | Look. (behind)"},
		{"items died", `{ attention: [{ kind: 'dead', severity: 'critical', count: 1, items: 299, first: [{ type: 'a', items: 299, recent: 300 }] }] }, null`,
			"bad: 300 items of a died in the last ten minutes | 299 are dead now. See why, fix it, and replay them."},
		{"no worker for many", `{ attention: [{ kind: 'no_worker', severity: 'critical', count: 200, items: 300, first: [{ type: 'a', items: 2, oldest_ms: 5000 }, { type: 'b', items: 1 }] }] }, null`,
			"bad: No worker for 200 types | 300 items queued. Start one for each: | a: 2 items queued, the oldest for 5.0 s | b: 1 item queued | and 198 more"},
		{"rejected long ago", `{ rejected: 7 }, null`, ""},
		{"rejected and kept", `{ rejected: 7 }, { code: 'bad_params', type: 'a' }`, "warn: Submissions were rejected | They are not items yet, and are kept until they are replayed or purged. The newest: bad_params, of type a."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := strings.Join(p.needsOf(tc.arguments), "\n"); got != tc.want {
				t.Errorf("it says\n%s\nnot\n%s", got, tc.want)
			}
		})
	}
}

// Each kind that the engine knows has words, for one and for many.
func TestEachKindOfAttentionHasWords(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	for _, kind := range wire.AttentionKinds {
		for _, count := range []int{1, 3} {
			said := strings.Join(p.needsOf(fmt.Sprintf(`{ attention: [{ kind: '%s', severity: 'warning', count: %d, items: 4, first: [{ type: 'a', worker: 'w', items: 4, recent: 1, most: 9, state: 'open', reason: 'r' }] }] }, null`, kind, count)), "\n")
			if said == "" || strings.Contains(said, "undefined") || strings.Contains(said, "NaN") {
				t.Errorf("of %d %s it says %q", count, kind, said)
			}
		}
	}
}

// Many types without a worker hide no death.
func TestManyNeedsHideNoDeath(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.crowd()
	for name, v := range map[string]view{"desktop": desktop, "phone": phone} {
		t.Run(name, func(t *testing.T) {
			p := open(t, v, w.url)
			p.see(".panel-needs .need:nth-child(1)", "Items of 2 types died in the last ten minutes")
			p.see(".panel-needs .need:nth-child(1)", "50 are dead now")
			p.see(".panel-needs .need:nth-child(2)", "No worker for 200 types")
			p.see(".panel-needs .need:nth-child(2)", "and 195 more")
			// Nothing below the last part: what only screen readers see takes no room.
			p.until(`document.scrollingElement.scrollHeight - Math.max(innerHeight, document.querySelector('footer').getBoundingClientRect().bottom + scrollY) < 100`)
		})
	}
}

// Running is one number, wherever it stands, and what is dispatched beyond it is
// called something else.
func TestNumbersAgree(t *testing.T) {
	t.Parallel()
	w := start(t)
	hold := func(ctx context.Context, _ *workers.RawItem) (any, error) {
		select {
		case <-w.hold:
		case <-ctx.Done():
		}
		return nil, context.Cause(ctx)
	}
	w.worker("w1", 2, map[string]workers.Handler{"hold": hold})
	for range 9 {
		w.submit(itemOf("hold"))
	}
	p := open(t, desktop, w.url)
	p.see(`[data-tile="running"] .tile-value`, "2")
	p.see(`tr[data-type="hold"] td:nth-of-type(4)`, "2")
	p.see(".panel-workers", "2 of 2 slots used") // without a heartbeat to wait for
	p.see(".panel-workers li", "2/2")
	p.until(`(() => {
		const tile = /^(\d+) in flight, of 1,000$/.exec(document.querySelector('[data-tile="running"] .tile-more').textContent);
		const row = /(\d+) \/ 1,000/.exec(document.querySelector('tr[data-type="hold"] td:nth-of-type(5)').textContent);
		return tile && row && tile[1] === row[1] && Number(tile[1]) >= 2;
	})()`)
	stats, err := w.client.Engine().Stats(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.client.Workers().List(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if runs := stats.States["running"] + stats.States["claimed"]; runs != 2 || len(list) != 1 || list[0].InFlight != 2 || stats.InFlight < 2 {
		t.Errorf("%d run, the worker has %+v, in flight are %d", runs, list, stats.InFlight)
	}
	p.goes("y", "#/types")
	p.see(".all-types thead", "In flight")
	p.click(".all-types", "hold")
	p.see(`[data-tile="running"] .tile-value`, "2")
}

// An id is shown whole, as it is searched for.
func TestTheVisiblePartOfAnIDIsTheID(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for _, v := range []view{desktop, phone, {width: 900, height: 700}} {
		for hash, id := range map[string]string{"#/work": s.scheduled, "#/dead?items=1": s.dead, "#/events?since=1h": s.dead, "#/workers": s.running, "#/work/" + s.parent: s.child} {
			t.Run(fmt.Sprintf("%d %s", v.width, hash), func(t *testing.T) {
				p := open(t, v, w.url+hash)
				p.see("main .mono", id)
				// What holds the id cuts nothing off it.
				p.until(fmt.Sprintf(`(() => {
					const el = [...document.querySelectorAll('main .mono')].find((x) => x.innerText === %s);
					const cell = el.closest('td, li, span, div:not(.mono)');
					return el.getBoundingClientRect().right <= cell.getBoundingClientRect().right - parseFloat(getComputedStyle(cell).paddingRight) + 0.5;
				})()`, quote(id)))
				p.fill(".search input", strings.ToLower(id))
				p.press(kb.Enter)
				p.until(`location.hash === '#/work/` + id + `'`)
			})
		}
	}
}

// Commands reach the engine that the page is of.
func TestCommandsCarryTheAddress(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *embedded.Options) { o.NATSListen = "127.0.0.1:0" })
	p := open(t, desktop, w.url)
	p.see(".command", `engine submit hello '{"name":"Ada"}' --server `+w.engine.URL())
	p.see(".command", "engine work hello --server "+w.engine.URL()+" -- cat")
	w.submit(itemOf("lonely"))
	p.see(".panel-needs .command", "engine work lonely --server "+w.engine.URL()+" -- COMMAND")
	var got []string
	p.eval(module("address.js")+`.then((m) => [
		m.flagsOf({ nats: 'nats://127.0.0.1:4222', prefix: 'work' }, 'host'), m.flagsOf({ nats: 'nats://0.0.0.0:4222', prefix: 'jobs' }, 'host'), m.flagsOf({}, 'host'),
		m.flagsOf({ prefix: 'work-acme' }, 'host'), m.flagsOf({ prefix: 'jobs-team-2' }, 'host'),
	])`, &got)
	if want := []string{"", "--server nats://host:4222 --prefix jobs", "", "--namespace acme", "--prefix jobs --namespace team-2"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the flags are %q, not %q", got, want)
	}
}

// An empty setting says what the engine does without it.
func TestPlaceholdersAreTheDefaults(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("email"))
	p := open(t, desktop, w.url+"#/types/email")
	p.see(".settings", "Circuit: probes")
	for name, want := range map[string]string{
		"circuit.probes": fmt.Sprint(events.DefaultProbes), "circuit.min_runs": fmt.Sprint(events.DefaultCircuitMinRuns), "poison_after": fmt.Sprint(events.DefaultPoisonAfter),
		"circuit.window_ms": "1m", "circuit.cooldown_ms": "30s", "retain.dead_ms": "30d", "retain.completed_ms": "1d", "group_by": "tenant", "assign_by": "most_free", "max_queued": "no limit",
	} {
		p.until(fmt.Sprintf(`document.getElementsByName(%s)[0].placeholder === %s`, quote(name), quote(want)))
	}
	p.fill("[name='circuit.cooldown_ms']", "10m")
	p.press(kb.Enter)
	p.until(`document.getElementsByName('circuit.max_cooldown_ms')[0].placeholder === '10m'`) // never less than the cooldown
}

// Each colour of a timeline is in its legend.
func TestEachColourIsInTheLegend(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for name, id := range map[string]string{"completed": s.completed, "retried": s.retried, "dead": s.dead, "running": s.running, "spawned": s.parent, "backing off": s.backingOff} {
		t.Run(name, func(t *testing.T) {
			p := open(t, desktop, w.url+"#/work/"+id)
			p.until(`document.querySelectorAll('.timeline-span').length > 0`)
			p.until(`(() => {
				const tones = (el) => [...el.classList].filter((c) => c.startsWith('st-'));
				const legend = new Set([...document.querySelectorAll('.timeline-legend li')].flatMap(tones));
				return [...document.querySelectorAll('.timeline-span')].flatMap(tones).every((c) => legend.has(c));
			})()`)
		})
	}
}

// Workers are told apart by the ends of their ids: the Overview shows them whole.
func TestTheOverviewShowsWorkersWhole(t *testing.T) {
	t.Parallel()
	w := start(t)
	for _, id := range []string{"machine-11444-91a53e1c", "machine-11444-f3a67675"} {
		w.worker(id, 1, map[string]workers.Handler{"mail": func(context.Context, *workers.RawItem) (any, error) { return nil, nil }})
	}
	for _, v := range []view{desktop, phone, {width: 1280, height: 900}} {
		p := open(t, v, w.url)
		p.see(".panel-workers", "machine-11444-91a53e1c")
		p.see(".panel-workers", "machine-11444-f3a67675")
		p.until(`[...document.querySelectorAll('.mini-name')].every((el) => {
			const at = el.getBoundingClientRect();
			return el.scrollWidth <= el.clientWidth + 0.5 || getComputedStyle(el).overflow === 'visible' && at.right <= el.parentNode.getBoundingClientRect().right;
		})`)
		p.until(`[...document.querySelectorAll('.mini-workers li')].every((li) => li.lastElementChild.getBoundingClientRect().right <= li.getBoundingClientRect().right + 0.5)`)
	}
}

// A batch runs nothing, so there are no attempts of it, and once it has ended no more
// items of it are to come.
func TestABatchIsShownAsABatch(t *testing.T) {
	t.Parallel()
	w := start(t)
	b, err := w.client.Batches().Open(w.ctx, streamwright.NewBatch{Name: "nightly", Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, desktop, w.url+"#/work/"+b.ID)
	p.see(".facts", "nightly: 0 of 2 done, 2 still to be submitted")
	p.gone(".facts", "Attempt")
	p.gone(".facts", "Timeout")
	p.see(".history-table", "batch · sealed")
	if _, _, err := w.client.Cancel(w.ctx, b.ID, ""); err != nil {
		t.Fatal(err)
	}
	p.see("h1", "cancelled")
	p.see(".facts", "nightly: 0 of 2 done")
	p.gone(".facts", "still to be submitted")
	p.gone("main button", "Replay") // the engine refuses that of a batch
}

// crowd fills the engine with 200 types that have no worker, and 50 dead items of two
// others.
func (w *world) crowd() {
	w.t.Helper()
	refuse := func(context.Context, *workers.RawItem) (any, error) {
		return nil, workers.Permanent(errors.New("refused"))
	}
	w.worker("w1", 8, map[string]workers.Handler{"charge": refuse, "refund": refuse})
	var items []streamwright.Item
	for i := range 50 {
		items = append(items, itemOf([]string{"charge", "refund"}[i%2]))
	}
	for i := range 200 {
		items = append(items, itemOf(fmt.Sprintf("t-%03d", i)))
	}
	subs, err := w.client.SubmitMany(w.ctx, items)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range subs[:50] {
		w.await(s.ID, events.StateDead)
	}
}

// The tiles and the legends of the charts show the same instant, not one of them the last
// sample.
func TestTilesAndLegendsAgree(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	w.submit(itemOf("idle"))
	p.until(`document.querySelector('.chart-none').hidden`) // there is a sample
	for range 4 {
		w.submit(itemOf("idle"))
	}
	agree := `(() => {
		const tile = document.querySelector('[data-tile="queued"] .tile-value').textContent;
		const legend = [...document.querySelectorAll('.chart-legend li')].find((li) => li.textContent.startsWith('queued ')).querySelector('.chart-value').textContent;
		return tile === '5' && legend === '5';
	})()`
	if err := p.becomes(agree, 8*time.Second); err != nil { // the samples are ten seconds apart
		t.Errorf("%v; %s", err, p.describe())
	}
	p.eval(`location.hash = '#/types/idle'`, nil)
	p.until(`document.querySelector('.chart-none')?.hidden`)
	p.until(agree)
}

// cutTexts are the texts of the page that are cut off, or stand over the edge of what
// holds them. What is long by itself (details, paths) may be: it has a title.
const cutTexts = `[...document.querySelectorAll('nav *, .tile *, .mini-workers *, .c-type, .e-type, th, .chip, .button, input[placeholder]')]
	.filter((el) => el.checkVisibility() && !el.closest('.sr, kbd') && el.clientWidth > 1)
	.filter((el) => {
		if (el.tagName !== 'INPUT') return getComputedStyle(el).overflowX !== 'visible' && el.scrollWidth > el.clientWidth + 1;
		const cs = getComputedStyle(el);
		const pen = document.createElement('canvas').getContext('2d');
		pen.font = cs.font;
		return pen.measureText(el.placeholder).width > el.clientWidth - parseFloat(cs.paddingLeft) - parseFloat(cs.paddingRight) + 1;
	}).map((el) => el.placeholder || el.innerText)`

// No text is cut at the usual widths, and no screen scrolls sideways.
func TestNoTextIsCut(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	w.crowd()
	for range 4 {
		w.submit(streamwright.Item{Type: "a-type-with-a-longer-name", Delay: time.Hour})
	}
	for _, v := range []view{desktop, {width: 1920, height: 1000}, {width: 1024, height: 768}, {width: 800, height: 700}, phone} {
		t.Run(fmt.Sprint(v.width), func(t *testing.T) {
			p := open(t, v, w.url)
			for _, hash := range []string{"#/", "#/work", "#/approvals", "#/types", "#/workers", "#/dead", "#/dead?items=1", "#/events", "#/schedules", "#/types/email", "#/work/" + s.dead} {
				p.eval("location.hash = "+quote(hash), nil)
				p.until(`document.documentElement.dataset.phase === 'live'`)
				p.until(`document.querySelector('.screen tbody tr, .screen .empty, .item-state, .tile')`)
				var cut []string
				if p.eval(cutTexts, &cut); len(cut) > 0 {
					t.Errorf("%s cuts %q", hash, cut)
				}
				var wide int
				if p.eval(`document.documentElement.scrollWidth - innerWidth`, &wide); wide > 0 {
					t.Errorf("%s scrolls %d px sideways", hash, wide)
				}
			}
			p.see(".item-state", "dead")
			p.press("e")
			p.see("dialog", "More attempts")
			var cut []string
			if p.eval(cutTexts, &cut); len(cut) > 0 {
				t.Errorf("the dialog cuts %q", cut)
			}
		})
	}
}

// Nobody can submit, or pause, a batch.
func TestTheTypeOfBatchesIsNotRun(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, err := w.client.Batches().Open(w.ctx, streamwright.NewBatch{Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	w.submit(itemOf("email"))
	p := open(t, desktop, w.url+"#/types")
	p.see(`tr[data-type="email"]`, "Pause")
	p.see(`tr[data-type="batch"]`, "batch")
	p.gone(`tr[data-type="batch"]`, "Pause")
	p.click(".all-types", "batch")
	p.see(".screen-head .tools", "Remove")
	p.gone(".screen-head .tools", "Pause")
	p.gone(".screen-head .tools", "New item")
}
