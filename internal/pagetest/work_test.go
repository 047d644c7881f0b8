package pagetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// rows are the ids of the items that the list shows.
func (p *tab) rows() (ids []string) {
	p.t.Helper()
	p.eval(`[...document.querySelectorAll('.work-table tbody tr')].map((tr) => tr.dataset.id)`, &ids)
	return ids
}

func TestTheListIsFiltered(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for _, c := range []struct {
		name, query string
		want        []string
	}{
		{"state", "state=dead", []string{s.dead}},
		{"type and state", "type=email&state=cancelled", []string{s.cancelled}},
		{"label", "label=team%3Dbilling", []string{s.completed}},
		{"tenant", "tenant=acme&state=completed&label=env%3Dprod", []string{s.completed}},
		{"code", "code=upstream_down", []string{s.backingOff}},
		{"words of the error", "error=insufficient+funds", []string{s.dead}},
		{"search by words", "q=insufficient+funds", []string{s.dead}},
		{"search by id", "q=" + s.merged, []string{s.merged}},
		{"created before", "created_before=2020-01-01T00%3A00", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, desktop, w.url+"#/work?"+c.query)
			p.until(fmt.Sprintf(`document.querySelectorAll('.work-table tbody tr').length === %d && (%d > 0 || document.querySelector('.empty'))`, len(c.want), len(c.want)))
			if got := p.rows(); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%s shows %v, not %v", c.query, got, c.want)
			}
			if c.want == nil {
				p.see(".empty", "No items match")
				p.click(".empty", "Clear the filters")
				p.see(".work-table", "invoice")
			}
		})
	}
}

func TestFiltersAreInTheAddress(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/work")
	p.see(".work-table", "invoice")
	p.click(`.chip[data-state="dead"]`, "dead")
	p.until(`location.hash === '#/work?state=dead'`)
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 1`)
	p.until(`document.querySelector('.chip[data-state="dead"]').getAttribute('aria-pressed') === 'true'`)
	p.choose(".filters select", "email")
	p.until(`location.hash === '#/work?state=dead&type=email'`)
	p.see(".empty", "No items match")
	p.eval(`history.back()`, nil)
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 1`)
	p.eval(`history.back()`, nil)
	p.see(".work-table", "invoice")
	p.fill(`.filters input[name="label"]`, "team=billing")
	p.until(`location.hash === '#/work?label=team%3Dbilling'`)
	p.click(".work-table", s.completed[len(s.completed)-8:])
	p.see(".item-state", "completed")
	p.eval(`history.back()`, nil)
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 1`)
}

func TestPagesToAnyDepth(t *testing.T) {
	t.Parallel()
	w := start(t)
	const all = 230
	items := make([]streamwright.Item, all)
	for i := range items {
		items[i] = streamwright.Item{Type: "page", Params: i}
	}
	subs, err := w.client.SubmitMany(w.ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, desktop, w.url+"#/work?type=page")
	seen := map[string]bool{}
	var second []string
	for n := 1; ; n++ {
		p.see(".pager", fmt.Sprintf("Page %d:", n))
		ids := p.rows()
		if len(ids) > 50 {
			t.Fatalf("page %d has %d rows", n, len(ids))
		}
		for _, id := range ids {
			if seen[id] {
				t.Errorf("page %d repeats %s", n, id)
			}
			seen[id] = true
		}
		if n == 2 {
			second = ids
		}
		var last bool
		if p.eval(`document.querySelector('.pager').innerText.includes('no older ones')`, &last); last {
			break
		}
		p.click(".pager", "Older")
	}
	if len(seen) != all || len(subs) != all {
		t.Errorf("%d of %d items were seen", len(seen), all)
	}
	deep := p.hash()
	p.press("[", "[", "[") // back, by the keyboard
	p.see(".pager", "Page 2:")
	if got := p.rows(); fmt.Sprint(got) != fmt.Sprint(second) {
		t.Errorf("the second page is another on the way back")
	}
	p.click(".pager", "Newest")
	p.see(".pager", "Page 1:")
	q := open(t, desktop, w.url+deep) // a link to a page far on
	q.see(".pager", "A later page")
	if got := len(q.rows()); got != all%50 {
		t.Errorf("the last page, by its link, has %d rows", got)
	}
	q.click(".pager", "Newest")
	q.see(".pager", "Page 1:")
}

// hover has the page believe that the mouse has come over the list, or has left it.
func (p *tab) hover(over bool) {
	p.t.Helper()
	kind := "pointerleave"
	if over {
		kind = "pointerenter"
	}
	p.eval(fmt.Sprintf(`document.querySelector('.work-table').dispatchEvent(new PointerEvent(%s, { pointerType: 'mouse' }))`, quote(kind)), nil)
}

// lists waits until the list shows these items, in this order.
func (p *tab) lists(ids ...string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll('.work-table tbody tr')].map((tr) => tr.dataset.id).join() === %s`, quote(strings.Join(ids, ","))))
}

func rowOf(id string) string { return fmt.Sprintf(`.work-table tr[data-id="%s"]`, id) }

func TestTheListIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.worker("media-1", 3, pick(w.handlers(), "transcode"))
	first := w.submit(itemOf("transcode"))
	w.awaitThat(first, "running with progress", func(it streamwright.WorkItem) bool { return it.Progress != nil })
	p := open(t, desktop, w.url+"#/work?type=transcode")
	q := open(t, desktop, w.url+"#/work?state=running")
	p.see(".connection", "live")
	p.see(rowOf(first), "running")
	q.see(".connection", "live")
	q.lists(first)
	same := p.stays()

	w.submit(itemOf("other")) // is not of the list
	second := w.submit(itemOf("transcode"))
	p.lists(second, first)
	p.see(rowOf(second), "media-1")
	q.lists(second, first)

	// While the mouse is over it no row comes, goes or moves.
	p.hover(true)
	q.hover(true)
	third := w.submit(itemOf("transcode"))
	p.see(".screen-head", "1 newer item")
	q.see(".screen-head", "1 newer item")
	w.let()
	p.see(rowOf(first), "completed")
	p.see(rowOf(second), "completed")
	p.lists(second, first)
	q.until(`document.querySelectorAll('.work-table tr.is-gone').length === 2`)
	q.lists(second, first)
	p.hover(false)
	q.hover(false)
	p.lists(third, second, first)
	p.gone(".screen-head", "newer")
	q.see(".empty", "No items match")
	same()

	// Loaded anew, the latest change comes first, and any of the three may have ended last.
	for _, id := range []string{first, second, third} {
		w.awaitThat(id, "completed", func(it streamwright.WorkItem) bool { return it.State == events.StateCompleted })
	}
	page, err := w.client.List(w.ctx, streamwright.Filter{Type: "transcode"})
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("the list: %+v, %v", page, err)
	}
	p.press("r")
	p.lists(page.Items[0].ID, page.Items[1].ID, page.Items[2].ID)
}

// Rows of a later page change, or go, where they are.
func TestALaterPageIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	items := make([]streamwright.Item, 52)
	for i := range items {
		items[i] = itemOf("page")
	}
	subs, err := w.client.SubmitMany(w.ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, desktop, w.url+"#/work?type=page&state=queued")
	p.see(".connection", "live")
	p.see(".pager", "Page 1: 50 items")
	p.click(".pager", "Older")
	p.lists(subs[1].ID, subs[0].ID)
	if err := w.client.Reschedule(w.ctx, subs[1].ID, streamwright.RescheduleOptions{Priority: 7}); err != nil {
		t.Fatal(err)
	}
	p.see(rowOf(subs[1].ID)+" .c-priority", "7")
	if _, _, err := w.client.Cancel(w.ctx, subs[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	p.lists(subs[1].ID)
}

// However much happens, the list is asked for at most once a second.
func TestALiveListIsAskedForSeldom(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url+"#/work")
	p.see(".connection", "live")
	p.see(".empty", "Nothing has been submitted yet")
	p.eval(`(() => {
		const real = window.fetch;
		window.testAsked = [];
		window.fetch = (url, init) => {
			if (new URL(url).pathname.endsWith('/api/v1/work')) window.testAsked.push(performance.now());
			return real(url, init);
		};
	})()`, nil)
	for n := 0; ; n++ {
		w.submit(itemOf("many"))
		var asked int
		if p.eval(`window.testAsked.length`, &asked); asked >= 4 {
			break
		}
	}
	var least float64
	p.eval(`Math.min(...window.testAsked.slice(1).map((at, i) => at - window.testAsked[i]))`, &least)
	if least < 990 {
		t.Errorf("it was asked for again after %v ms", least)
	}
}

// choices ticks the boxes of items.
func (p *tab) choices(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		p.click(rowOf(id)+" input", "")
		p.until(fmt.Sprintf(`document.querySelector(%s).checked`, quote(rowOf(id)+" input")))
	}
}

func TestSelectedItemsAreCancelled(t *testing.T) {
	t.Parallel()
	w := start(t)
	var ids []string
	for range 3 {
		ids = append(ids, w.submit(itemOf("email")))
	}
	p := open(t, desktop, w.url+"#/work?type=email")
	p.see(".connection", "live")
	p.lists(ids[2], ids[1], ids[0])
	p.choices(ids[0], ids[2])
	p.see(".select-bar", "2 items selected")
	late := w.submit(itemOf("email")) // comes not between them
	p.see(".screen-head", "1 newer item")
	p.lists(ids[2], ids[1], ids[0])
	p.until(`[...document.querySelectorAll('.select-bar .tools button')].filter((b) => !b.hidden).map((b) => b.innerText).join() === 'Cancel …,Reschedule …'`)

	p.click(".select-bar .tools", "Reschedule")
	p.see("dialog .bulk-count", "2 items: 2 email")
	p.click("dialog .dialog-buttons", "Reschedule 2 items")
	p.see("dialog .dialog-error", "Nothing would change")
	p.click("dialog .dialog-buttons", "Close")
	p.until(`!document.querySelector('dialog')`)

	p.click(".select-bar .tools", "Cancel")
	p.see("dialog .bulk-count", "2 items: 2 email")
	p.fill("dialog .field input", "ordered twice")
	p.click("dialog .dialog-buttons", "Cancel 2 items")
	p.said("2 items cancelled")
	for i, want := range []events.ItemState{events.StateCancelled, events.StateQueued, events.StateCancelled} {
		if it := w.item(ids[i]); it.State != want {
			t.Errorf("item %d is %s, not %s", i, it.State, want)
		}
	}
	p.lists(ids[0], ids[2], late, ids[1]) // done in the order of the list
	p.until(`document.querySelector('.select-bar').hidden`)

	// What was cancelled can be replayed and purged; of all three, two.
	p.click(".work-table thead input", "")
	p.see(".select-bar", "4 items selected")
	p.click(".select-bar .tools", "Replay")
	p.see("dialog", "2 of the 4 selected")
	p.click("dialog .dialog-buttons", "Close")
	p.until(`!document.querySelector('dialog')`)
	p.click(".select-bar", "Select none")
	p.choices(ids[0])
	p.click(".select-bar .tools", "Purge")
	p.click("dialog .dialog-buttons", "Purge 1 item")
	p.said("1 item purged")
	p.lists(ids[2], late, ids[1])
}

// selectPage selects what the page shows, again if the list is made anew meanwhile.
func (p *tab) selectPage() {
	p.t.Helper()
	p.until(`document.querySelector('.work-table thead input')?.checked || (document.querySelector('.work-table thead input')?.click(), false)`)
}

func TestAllThatMatchAreSelected(t *testing.T) {
	t.Parallel()
	w := start(t)
	items := make([]streamwright.Item, 120)
	for i := range items {
		items[i] = itemOf("page")
	}
	if _, err := w.client.SubmitMany(w.ctx, items); err != nil {
		t.Fatal(err)
	}
	other := w.submit(itemOf("other"))
	p := open(t, desktop, w.url+"#/work?type=page")
	p.see(".connection", "live")
	p.see(".pager", "Page 1: 50 items")
	p.selectPage()
	p.see(".select-bar", "50 items selected")
	p.click(".select-bar", "Select all 120 that match")
	p.see(".select-bar", "All 120 that match these filters")
	p.click(".select-bar .tools", "Reschedule")
	p.see("dialog .bulk-count", "120 items: 120 page")
	p.choose("dialog .field:last-of-type select", "9")
	p.click("dialog .dialog-buttons", "Reschedule 120 items")
	p.said("120 items rescheduled")
	p.see(".work-table", "page")

	p.selectPage()
	p.click(".select-bar", "Select all 120 that match")
	p.click(".select-bar .tools", "Cancel")
	p.see("dialog .bulk-count", "120 items: 120 page")
	p.see("dialog", "type “page”")
	p.click("dialog .dialog-buttons", "Cancel 120 items")
	p.said("120 items cancelled")
	if it := w.item(other); it.State != events.StateQueued {
		t.Errorf("the item of another type is %s", it.State)
	}
	for it, err := range w.client.All(w.ctx, streamwright.Filter{Type: "page"}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.State != events.StateCancelled || it.Priority != 9 {
			t.Errorf("item %s is %s, with priority %d", it.ID, it.State, it.Priority)
		}
	}

	// Purged, whatever state each ended in: of no state but those.
	p.click(`.chip[data-state=""]`, "all")
	p.see(".pager", "Page 1: 50 items")
	p.selectPage()
	p.click(".select-bar", "Select all 120 that match")
	p.click(".select-bar .tools", "Purge")
	p.click("dialog .dialog-buttons", "Purge 120 items")
	p.said("120 items purged")
	p.see(".empty", "No items match")
}

func TestTheOverviewIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/")
	stats, err := w.client.Engine().Stats(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	queued := int64(0)
	for _, ty := range stats.Types {
		queued += ty.States[events.StateQueued.String()]
	}
	p.see(`[data-tile="queued"] .tile-value`, fmt.Sprint(queued))
	p.see(`[data-tile="dead"] .tile-value`, "1")
	p.see(".panel-needs", "No worker for archive")
	p.see(".panel-needs", "invoice is paused")
	p.see(".panel-needs", "new tax rates at noon")
	p.see(".panel-workers", "mailer-1")
	p.see(`tr[data-type="invoice"]`, "paused")
	same := p.stays()
	for range 5 {
		w.submit(streamwright.Item{Type: "archive", Delay: time.Minute})
	}
	p.see(`[data-tile="queued"] .tile-value`, fmt.Sprint(queued+5))
	if _, err := w.client.Types().Resume(w.ctx, "invoice"); err != nil {
		t.Fatal(err)
	}
	p.gone(".panel-needs", "invoice is paused")
	p.see(".panel-needs", "No worker for 2 types")
	p.see(".panel-needs", "invoice: 7 items queued")
	same()
	p.click(`tr[data-type="charge"] td:nth-of-type(8)`, "1")
	p.until(`location.hash === '#/work?type=charge&state=dead'`)
	p.until(`document.querySelector('.work-table tbody tr').dataset.id === ` + quote(s.dead))
}

func TestAnEmptyEngineSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	p.see(".screen", "Nothing has been submitted yet")
	p.see(".command", "engine submit hello")
	p.see(".panel-workers", "No worker is registered")
	p.goes("w", "#/work")
	p.see(".empty", "engine submit hello")
	id := w.submit(streamwright.Item{Type: "hello"})
	p.until(`document.querySelector('.work-table tbody tr')?.dataset.id === ` + quote(id)) // by itself
	if strings.Contains(p.text(".screen"), "Nothing has been submitted") {
		t.Error("it still says that nothing has been submitted")
	}
}
