package pagetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

// provoked are what the browser reports when a connection is broken on purpose.
var provoked = []string{"ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE_CHUNKED_ENCODING", "Failed to load resource: net::", "ERR_ABORTED"}

// stays marks the page, so that a reload would be noticed.
func (p *tab) stays() func() {
	p.eval(`window.testMark = true`, nil)
	return func() {
		p.t.Helper()
		var same bool
		p.eval(`window.testMark === true`, &same)
		if !same {
			p.t.Error("the page was loaded anew")
		}
	}
}

func TestABrokenConnectionComesBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	way := newWire(t, w.engine.HTTP())
	id := w.submit(streamwright.Item{Type: "email"})
	p := open(t, desktop, "http://"+way.addr+"/#/work/"+id)
	p.expect(provoked...)
	p.see(".connection", "live")
	p.see(".item-state", "queued")
	same := p.stays()

	way.cut()
	p.see(".connection", "reconnecting")
	p.until(`document.querySelector('.connection').title.includes('may be old')`)
	w.worker("w-1", 2, pick(w.handlers(), "email"))
	w.await(id, events.StateCompleted)
	if got := p.text(".item-state"); !strings.Contains(got, "queued") {
		t.Errorf("without a connection the page says %q", got)
	}
	way.mend()
	p.see(".connection", "live")
	p.see(".item-state", "completed")
	p.said("Reconnected")
	p.said("+1 completed")
	p.see(".history-table", "completed")
	same()
}

// A browser keeps the pages that were left, for a return. They hold no connections: it
// has only six to a host, and the next page would get none.
func TestAPageThatIsLeftHoldsNoConnection(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url+"#/events")
	p.expect(provoked...)
	for range 5 {
		p.see(".connection", "live")
		p.do(chromedp.Navigate("about:blank"))
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		err := chromedp.Do(ctx, chromedp.Navigate(w.url+"#/events"))
		cancel()
		if err != nil {
			t.Fatalf("the page is not loaded again: %v", err)
		}
	}
	p.see(".connection", "live")
	p.eval(`dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))`, nil)
	p.see(".connection", "reconnecting")
	p.see(".connection", "live") // as a page that is shown again
}

func TestARestartedEngine(t *testing.T) {
	t.Parallel()
	o := embedded.Options{Dir: t.TempDir(), NATSListen: config.Off, HTTP: need.Address(t).String(), Durability: config.Interval}
	w := start(t, func(to *embedded.Options) { *to = o })
	w.submit(streamwright.Item{Type: "email"})
	p := open(t, desktop, w.url+"#/")
	p.expect(append(slices.Clone(provoked), "status of 503", "status 503")...) // of an engine that is stopping
	p.see(`[data-tile="queued"] .tile-value`, "1")
	same := p.stays()
	w.stop()
	p.see(".connection", "reconnecting")
	w.begin(o)
	w.submit(streamwright.Item{Type: "email"})
	p.see(".connection", "live")
	p.see(`[data-tile="queued"] .tile-value`, "2")
	p.said("Reconnected")
	same()
}

// A token with every role, and the option of an engine that asks for it.
const token = "s3cret-of-at-least-16-characters"

func guarded(o *embedded.Options) { o.HTTPTokens = "ops " + token + " submit,read,operate" }

func TestATokenIsAskedFor(t *testing.T) {
	t.Parallel()
	w := start(t, guarded)
	w.submit(streamwright.Item{Type: "email"})
	p := open(t, desktop, w.url+"#/work")
	p.expect("401", "status 401")
	p.see("dialog", "requires a token")
	p.fill("dialog input", "wrong")
	p.click("dialog", "Continue")
	p.see("dialog", "was refused")
	p.fill("dialog input", token)
	p.click("dialog", "Continue")
	p.see(".work-table", "email")
	p.see(".connection", "live")
	var kept struct{ Session, Local, Dialogs string }
	p.eval(`({ Session: JSON.stringify(sessionStorage), Local: JSON.stringify(localStorage), Dialogs: String(document.querySelectorAll('dialog').length) })`, &kept)
	if !strings.Contains(kept.Session, token) || strings.Contains(kept.Local, token) || kept.Dialogs != "0" {
		t.Errorf("the token must be kept for this tab alone, and no question be left: %+v", kept)
	}
	p.reload()
	p.see(".work-table", "email")
}

func TestWithoutATokenThePageSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, guarded)
	p := open(t, desktop, w.url+"#/")
	p.expect("401")
	p.see("dialog", "requires a token")
	// A request that is under way when the question is answered asks it no more.
	got, let := p.hold("/api/v1/stats")
	p.eval(`void `+module("api.js")+`.then((m) => m.get('api/v1/stats')).catch((err) => { window.testRefused = err.status; })`, nil)
	got()
	p.click("dialog", "Not now")
	p.see(".connection", "signed out")
	let()
	p.until(`window.testRefused === 401`)
	p.until(`document.querySelectorAll('dialog').length === 0`)
	p.click(".connection", "Connection")
	p.see("dialog", "requires a token")
}

// A list of a node that is behind the others says so above, until it has all or another
// screen is shown.
func TestListsThatMayLackItemsSaySo(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("email"))
	p := open(t, desktop, w.url+"#/workers")
	p.see("h1", "Workers")
	p.eval(`(() => {
		const real = window.fetch;
		window.fetch = async (...args) => {
			const res = await real(...args);
			if (!window.testStale || !String(args[0]).includes('/schedules')) return res;
			return new Response(JSON.stringify({ ...await res.json(), stale: 'as of position 7: this node may lack what others have accepted' }), res);
		};
		window.testStale = true;
	})()`, nil)
	p.goes("s", "#/schedules")
	p.see(".banner", "as of position 7")
	p.see(".connection", "stale")
	p.eval(`window.testStale = false`, nil)
	p.press("r")
	p.gone(".banner", "as of position 7")
	p.eval(`window.testStale = true`, nil)
	p.press("r")
	p.see(".banner", "as of position 7")
	p.goes("w", "#/work")
	p.gone(".banner", "as of position 7")
	p.goes("s", "#/schedules")
	p.see(".banner", "as of position 7")
	p.eval(`window.testStale = false`, nil)
	p.gone(".banner", "as of position 7") // by itself
}

// What somebody has typed into the settings of a type stays when the connection comes back, and
// what has changed meanwhile is shown beside it.
func TestWhatIsEditedOutlivesAConnection(t *testing.T) {
	t.Parallel()
	w := start(t)
	way := newWire(t, w.engine.HTTP())
	w.submit(streamwright.Item{Type: "email"})
	p := open(t, desktop, "http://"+way.addr+"/#/types/email")
	p.expect(provoked...)
	p.see(".connection", "live")
	p.see(".settings-end", "Save")
	p.see(`[data-setting="max_attempts"] .tag`, "default")
	p.set(`input[name="max_attempts"]`, "7")
	p.set(`input[name="timeout_ms"]`, "soon")
	p.click(".settings-end", "Save")
	p.see(`[data-setting="timeout_ms"] .field-error`, "")

	way.cut()
	p.see(".connection", "reconnecting")
	if _, err := w.client.Types().Configure(t.Context(), "email", streamwright.Settings{Lease: new(90 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	way.mend()
	p.see(".connection", "live")
	p.until(`document.querySelector('input[name="lease_ms"]').value === '1m30s'`)
	p.see(".settings-end", "2 settings changed, not saved")
	p.until(`document.querySelector('input[name="max_attempts"]').value === '7' && document.querySelector('input[name="timeout_ms"]').value === 'soon'`)
	p.click(".settings-end", "Undo")
	p.gone(".settings-end", "not saved")
	p.until(`document.querySelector('input[name="max_attempts"]').value !== '7' && document.querySelector('input[name="timeout_ms"]').value !== 'soon'`)
}
