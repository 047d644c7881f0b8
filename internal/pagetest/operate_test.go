package pagetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

func tail(id string) string { return id[len(id)-8:] }

func TestDeadLettersByCause(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	p := open(t, desktop, w.url+"#/dead")
	row := `tr[data-cause]:has(.c-type):nth-child(n)`
	p.until(`document.querySelectorAll('.causes tbody tr').length === 2`)
	p.see(row, "growing: 10 deaths within 5 minutes")
	p.see(row, "no such mailbox here")
	p.see(".screen-head", fmt.Sprintf("%d items dead of 2 causes", declined+1))

	w.await(w.submit(streamwright.Item{Type: "charge", Params: map[string]int{"order": 999}}), events.StateDead) // live
	p.see(".causes .c-dead", fmt.Sprint(declined+1))

	p.click(".causes", "was declined by the bank")
	p.see(".panel-cause", fmt.Sprint(declined+1))
	p.until(fmt.Sprintf(`document.querySelectorAll('.dead-items tbody tr').length === %d`, declined+1))

	p.click(fmt.Sprintf(`tr[data-id="%s"]`, s.declined[0]), "Edit")
	p.see("dialog h2", "Edit and replay")
	p.fill("dialog textarea", `{"order":100,"fixed":true}`)
	p.click("dialog", "Replay with these params")
	if it := w.await(s.declined[0], events.StateCompleted); string(it.Result) != `{"charged":true}` {
		t.Errorf("the edited item gave %s", it.Result)
	}
	p.until(fmt.Sprintf(`!document.querySelector('tr[data-id="%s"]')`, s.declined[0]))

	p.click(fmt.Sprintf(`tr[data-id="%s"]`, s.declined[1]), "Replay")
	p.click("dialog .dialog-buttons", "Replay")
	p.until(`!document.querySelector('dialog')`)
	w.awaitThat(s.declined[1], "dead again", func(it streamwright.WorkItem) bool { return it.State == events.StateDead && it.Attempt > 1 })

	p.press("r")
	p.until(fmt.Sprintf(`document.querySelector('.dead-items tbody tr').dataset.id === %q`, s.declined[1])) // it died last
	p.click(fmt.Sprintf(`tr[data-id="%s"]`, s.declined[10]), "Purge")
	p.click("dialog .dialog-buttons", "Purge the item")
	w.until("the item is forgotten", func() bool { _, err := w.client.Get(w.ctx, s.declined[10]); return err != nil })
}

func TestBulkReplayAndPurgeCountFirst(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	dead := func(typ string) int {
		page, err := w.client.DeadLetters().List(w.ctx, streamwright.Selection{List: streamwright.Filter{Type: typ}})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	p := open(t, desktop, w.url+"#/dead?items=1&type=charge")
	p.until(fmt.Sprintf(`document.querySelectorAll('.dead-items tbody tr').length === %d`, declined))
	p.press("a")
	p.see(".bulk-count", fmt.Sprintf("%d items: %d charge.", declined, declined))
	p.see("dialog", "type charge")
	p.click("dialog .dialog-buttons", fmt.Sprintf("Replay %d items", declined))
	p.said(fmt.Sprintf("%d items replayed", declined))
	for _, id := range s.declined { // nothing was corrected: they die again
		w.awaitThat(id, "dead again", func(it streamwright.WorkItem) bool { return it.State == events.StateDead && it.Attempt > 1 })
	}
	p.until(`!document.querySelector('dialog')`)
	p.press("r")
	p.until(fmt.Sprintf(`document.querySelectorAll('.dead-items tbody tr').length === %d`, declined))

	p.click(".screen-head", "Purge all")
	p.see(".bulk-count", fmt.Sprintf("%d items: %d charge.", declined, declined))
	p.see("dialog", "can’t be undone")
	p.click("dialog .dialog-buttons", "Close") // not yet
	if n := dead("charge"); n != declined {
		t.Fatalf("%d are left, though it was not confirmed", n)
	}
	p.click(".screen-head", "Purge all")
	p.click("dialog .dialog-buttons", fmt.Sprintf("Purge %d items", declined))
	p.said(fmt.Sprintf("%d items purged", declined))
	p.see(".empty", "No dead items match")
	if charge, email := dead("charge"), dead("email"); charge != 0 || email != 1 {
		t.Errorf("%d of charge and %d of email are left: only those of charge were meant", charge, email)
	}
}

func TestDeadItemsPageToAnyDepth(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.worker("c-1", 8, map[string]workers.Handler{"charge": charge})
	const all = 120
	ids := map[string]bool{}
	for i := range all {
		ids[w.submit(streamwright.Item{Type: "charge", Params: map[string]int{"order": i}})] = true
	}
	for id := range ids {
		w.await(id, events.StateDead)
	}
	p := open(t, desktop, w.url+"#/dead?items=1")
	for n := 1; n <= 3; n++ {
		p.see(".pager", fmt.Sprintf("Page %d:", n))
		var got []string
		p.eval(`[...document.querySelectorAll('.dead-items tbody tr')].map((tr) => tr.dataset.id)`, &got)
		for _, id := range got {
			delete(ids, id)
		}
		if n < 3 {
			p.click(".pager", "Older")
		}
	}
	if len(ids) > 0 {
		t.Errorf("%d of %d were on no page", len(ids), all)
	}
	p.press("[")
	p.see(".pager", "Page 2:")
}

func TestRejectedSubmissions(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.seedTrouble()
	p := open(t, desktop, w.url+"#/dead")
	p.click(".tabs", "Rejected submissions")
	p.until(`document.querySelectorAll('.rejected tbody tr').length === 2`)
	bin, text := w.rejected()[0].Seq, w.rejected()[1].Seq
	p.click(".rejected", fmt.Sprintf("#%d", bin))
	p.see(".panel-original", "00 01 02 ff 61 62")
	p.click(".screen-head", "Purge")
	p.click("dialog .dialog-buttons", "Purge")
	p.until(`document.querySelectorAll('.rejected tbody tr').length === 1`)
	if got := w.rejected(); len(got) != 1 || got[0].Seq != text {
		t.Errorf("kept is %+v", got)
	}

	p.click(".rejected", fmt.Sprintf("#%d", text))
	p.see(".panel-original", "{to: kelly}")
	p.see(".panel-rejected", "JSON")
	p.see(".screen", "acme")
	p.press("e")
	p.see("dialog h2", "Correct and replay")
	p.see("dialog .field-error", "") // what is no JSON is said at once
	p.fill("dialog input", "charge")
	p.fill("dialog textarea", `{"to":"kelly","fixed":1}`)
	p.click("dialog", "Submit again")
	p.click(".toast", "View the item")
	p.see(".item-head", "charge")
	id := strings.TrimPrefix(p.hash(), "#/work/")
	if it := w.await(id, events.StateCompleted); it.Type != "charge" || it.Tenant != "acme" || it.Provenance.Trigger != fmt.Sprintf("rejected:%d", text) {
		t.Errorf("the corrected item is %+v", it)
	}
}

func TestATypeIsPausedAndItsCircuitClosed(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.seedTrouble()
	p := open(t, desktop, w.url+"#/types")
	p.see(`tr[data-type="fetch"]`, "circuit open")
	p.see(`tr[data-type="charge"]`, fmt.Sprint(declined))
	p.click(`tr[data-type="charge"]`, "Pause")
	p.see("dialog h2", "Pause charge?")
	p.choose("dialog select", "240")
	p.fill("dialog input", "the bank is down")
	p.click("dialog .dialog-buttons", "Pause")
	p.see(`tr[data-type="charge"]`, "paused")
	if got := w.typeOf("charge").Paused; got == nil || got.Reason != "the bank is down" || got.Until.Sub(got.At) != 4*time.Hour {
		t.Errorf("paused is %+v", got)
	}
	p.click(`tr[data-type="charge"]`, "charge")
	p.see(".notice", "the bank is down")
	p.see(".notice", "Until in ")
	p.click(".screen-head", "Resume")
	p.gone(".notice", "Paused")
	if w.typeOf("charge").Paused != nil {
		t.Error("it is still paused")
	}

	q := open(t, desktop, w.url+"#/types/fetch")
	q.see(".notice-bad", "Circuit open")
	q.press("c")
	q.click("dialog .dialog-buttons", "Close the circuit")
	q.gone(".notice-bad", "Circuit")
	if w.typeOf("fetch").Circuit != nil {
		t.Error("the circuit is not closed")
	}
}

func TestSettingsAreEdited(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.seedTrouble()
	p := open(t, desktop, w.url+"#/types/email")
	setting := func(path string) string { return fmt.Sprintf(`[data-setting="%s"]`, path) }
	p.see(setting("capacity"), "engine.toml sets this")
	p.until(`document.querySelector('[data-setting="capacity"] input').readOnly && document.querySelector('[data-setting="capacity"] input').value === '12'`)
	p.until(`document.querySelector('[data-setting="lease_ms"] input').value === '45s'`)
	p.see(setting("timeout_ms"), "default")

	p.fill(setting("timeout_ms")+" input", "90s")
	p.fill(setting("backoff.max_ms")+" input", "1h30m")
	p.fill(setting("circuit.consecutive")+" input", "7")
	p.until(`document.querySelector('[data-setting="max_params_bytes"] input').value === '256KiB'`)
	p.fill(setting("max_params_bytes")+" input", "2KiB")
	p.fill(setting("rates")+" textarea", `[{"per":"type","at":"dispatch","n":10,"interval":"1s"}]`)
	p.see(".settings-end", "5 settings changed")
	p.click(".settings-end", "Save")
	p.said("are saved")
	p.see(setting("timeout_ms"), "changed")
	got := w.typeOf("email").Settings
	if got.Timeout.Duration != 90*time.Second || got.Backoff.Max.Duration != 90*time.Minute || got.Circuit.Consecutive != 7 || got.Capacity != 12 || got.Backoff.Initial.Duration != time.Second || got.MaxParams != 2048 ||
		len(got.Rates) != 1 || got.Rates[0].Interval.Duration != time.Second {
		t.Errorf("the settings are %+v", got)
	}
	p.until(`document.querySelector('[data-setting="rates"] textarea').value === '[{"per":"type","at":"dispatch","n":10,"interval":"1s"}]'`)

	p.expect("status 400", "(Bad Request)", "status 409", "(Conflict)")
	p.fill(setting("max_attempts")+" input", "5000") // the engine's bound, at the field
	p.click(".settings-end", "Save")
	p.see(setting("max_attempts")+" .field-error", "max_attempts is 5000: it must be 1 to 1000")
	p.until(`document.activeElement.name === 'max_attempts'`)
	p.fill(setting("max_attempts")+" input", "soon") // the page's own
	p.click(".settings-end", "Save")
	p.see(setting("max_attempts")+" .field-error", "is not a number")
	p.click(".settings-end", "Undo")
	p.until(`document.querySelector('[data-setting="max_attempts"] input').value === '3'`)

	// A page that does not know what the file says by now.
	p.eval(`document.querySelector('[data-setting="capacity"] input').readOnly = false`, nil)
	p.fill(setting("capacity")+" input", "50")
	p.click(".settings-end", "Save")
	p.see(setting("capacity")+" .field-error", "engine.toml sets capacity of type email")
	if c := w.typeOf("email").Settings.Capacity; c != 12 {
		t.Errorf("the capacity is %d", c)
	}
}

func TestWorkersAreShownAndDrained(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	p := open(t, desktop, w.url+"#/workers")
	media := `tr[data-worker="media-1"]`
	p.see(media, "transcode")
	p.see(media, "host-a")
	p.see(media, "1.4.2")
	p.see(media, "42 %")
	p.see(media, "active")
	p.fill(`input[name="worker"]`, "mailer")
	p.until(`location.hash === '#/workers?worker=mailer'`)
	p.gone(".workers", "media-1")
	p.fill(`input[name="worker"]`, "media")
	p.click(media+" .w-runs", tail(s.running))
	p.see(".item-state", "running")
	p.eval(`history.back()`, nil)
	p.see(media, "42 %")
	p.click(media, "Drain")
	p.see("dialog", "It finishes 1 item")
	p.click("dialog .dialog-buttons", "Drain")
	p.see(media, "draining")
	list, err := w.client.Workers().List(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, wk := range list {
		if wk.Worker == "media-1" && wk.Status != "draining" {
			t.Errorf("media-1 is %s", wk.Status)
		}
	}
	p.click(media, "Undrain")
	p.gone(media, "draining")
	if drains, err := w.client.Workers().Drains(w.ctx); err != nil || len(drains) > 0 {
		t.Errorf("the marks are %+v (%v)", drains, err)
	}
}

// However much runs, each worker shows what is its own: the list is asked worker by
// worker, and what is more than fits leads to the list of work.
func TestAWorkersItemsAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	w := start(t)
	hold := func(ctx context.Context, _ *workers.RawItem) (any, error) {
		select {
		case <-w.hold:
		case <-ctx.Done():
		}
		return nil, context.Cause(ctx)
	}
	w.worker("small", 1, map[string]workers.Handler{"rare": hold})
	w.worker("large", 110, map[string]workers.Handler{"common": hold})
	rare := w.submit(itemOf("rare"))
	w.await(rare, events.StateRunning)
	items := make([]streamwright.Item, 110)
	for i := range items {
		items[i] = itemOf("common")
	}
	subs, err := w.client.SubmitMany(w.ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		w.await(s.ID, events.StateRunning)
	}
	p := open(t, desktop, w.url+"#/workers")
	p.see(`tr[data-worker="small"] .w-runs`, tail(rare))
	p.see(`tr[data-worker="large"] .w-runs`, "all its runs")
	p.click(`tr[data-worker="large"] .w-runs`, "all its runs")
	p.until(`location.hash === '#/work?worker=large' && document.querySelectorAll('.work-table tbody tr').length === 50`)
	p.gone(".work-table tbody", "rare")
	p.press("]")
	p.see(".pager", "Page 2: 50 items")
	p.press("]")
	p.see(".pager", "no older ones")
	p.see(".pager", "Page 3: 10 items")
	p.eval(`location.hash = '#/work?worker=small'`, nil)
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 1`)
	p.see(".work-table tbody", tail(rare))
	p.until(`document.querySelector('.more-filters').open && document.querySelector('input[name="worker"]').value === 'small'`)
}

func TestSchedulesAreFiredPausedAndRemoved(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.seedTrouble()
	p := open(t, desktop, w.url+"#/schedules")
	nightly := `tr[data-name="nightly"]`
	p.see(nightly, "Europe/Berlin")
	p.until(`document.querySelector('tr[data-name="rollup"] button[aria-label^="Pause"]').disabled && document.querySelector('tr[data-name="rollup"] button[aria-label^="Pause"]').title.includes('engine.toml')`)
	p.click(nightly, "Fire nightly now")
	p.click("dialog .dialog-buttons", "Fire")
	p.click(".toast", "View")
	p.see(".item-head", "report")
	if got := w.schedule("nightly"); got == nil {
		t.Error("it is gone")
	}
	p.eval(`history.back()`, nil)
	p.click(nightly, "Pause nightly")
	p.see(nightly, "paused")
	if !w.schedule("nightly").Paused {
		t.Error("it is not paused")
	}
	p.click(nightly, "Resume nightly")
	p.gone(nightly, "paused")
	p.click(nightly, "Remove nightly")
	p.click("dialog .dialog-buttons", "Remove")
	p.until(`!document.querySelector('tr[data-name="nightly"]')`)
	if w.schedule("nightly") != nil {
		t.Error("it is still there")
	}
}

func TestOperatorsSeeEmptyScreens(t *testing.T) {
	t.Parallel()
	w := start(t)
	for hash, want := range map[string]string{
		"#/dead": "Nothing is dead", "#/dead?items=1": "No dead items match", "#/dead?show=rejected": "No submission has been rejected",
		"#/dead?cause=0123456789abcdef": "Nothing is dead of this cause", "#/types": "No types yet", "#/workers": "No worker is registered",
		"#/schedules": "No schedules", "#/events?kind=dead": "No such events yet",
	} {
		t.Run(hash, func(t *testing.T) {
			p := open(t, desktop, w.url+hash)
			p.see(".empty", want)
		})
	}
	t.Run("no such type", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/types/nowhere")
		p.expect("status 404", "404 (Not Found)")
		p.see(".empty", "No such type")
	})
	t.Run("no such rejected submission", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/dead?show=rejected&seq=77")
		p.expect("status 404", "404 (Not Found)")
		p.see(".empty", "no rejected submission of event 77")
	})
}

// It takes the minute after which a silent worker counts as dead.
func TestAWorkerThatDiedIsShown(t *testing.T) {
	t.Parallel()
	w := start(t, func(o *embedded.Options) {
		o.Config.Workers.HeartbeatInterval, o.Config.Workers.DeadAfter = time.Second, 3*time.Second
	})
	silence := w.beats("ghost-1")
	p := open(t, desktop, w.url+"#/workers")
	p.see(`.workers tr[data-worker="ghost-1"]`, "host-b")
	silence()
	w.until("the worker is dead", func() bool {
		list, err := w.client.Workers().List(w.ctx)
		return err == nil && len(list) == 1 && list[0].Status == "dead"
	})
	p.see(".panel-died", "ghost-1")
	p.see(".empty", "No worker")
	p.click(`.chip[data-status="dead"]`, "dead")
	p.see(".panel-died", "dead")
}
