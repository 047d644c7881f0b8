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

func TestTheListTellsWhatHasChanged(t *testing.T) {
	w := start(t)
	first := w.submit(streamwright.Item{Type: "email"})
	p := open(t, desktop, w.url+"#/work?type=email")
	p.see(".connection", "live")
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 1`)
	for range 3 {
		w.submit(streamwright.Item{Type: "other"})
	}
	second := w.submit(streamwright.Item{Type: "email"})
	// Created and queued, and so may be those of the first, if the feed is late. Of the
	// other type, whose events come before, none counts.
	p.until(`/^[24] events since/.test(document.querySelector('.screen-head .hint').innerText)`)
	if got := p.rows(); fmt.Sprint(got) != fmt.Sprint([]string{first}) {
		t.Errorf("rows have moved: %v", got)
	}
	p.click(".screen-head", "Refresh")
	p.until(`document.querySelectorAll('.work-table tbody tr').length === 2`)
	p.gone(".screen-head", "since")
	if got := p.rows(); fmt.Sprint(got) != fmt.Sprint([]string{second, first}) {
		t.Errorf("after the refresh: %v", got)
	}

	// What changes while the page is being read is told as well.
	got, let := p.hold("/api/v1/work?")
	p.press("r")
	got()
	third := w.submit(streamwright.Item{Type: "email"})
	p.see(".screen-head", "since")
	p.until(`document.querySelector('.work-table').ariaBusy === 'true'`)
	let()
	p.until(`document.querySelector('.work-table').ariaBusy === null`)
	p.see(".screen-head", "since")
	if got := p.rows(); fmt.Sprint(got) != fmt.Sprint([]string{second, first}) {
		t.Errorf("what was read before shows: %v", got)
	}
	p.press("r")
	p.until(`document.querySelector('.work-table tbody tr').dataset.id === ` + quote(third))
	p.gone(".screen-head", "since")
}

func TestTheOverviewIsLive(t *testing.T) {
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
	w := start(t)
	p := open(t, desktop, w.url)
	p.see(".screen", "Nothing has been submitted yet")
	p.see(".command", "engine submit hello")
	p.see(".panel-workers", "No worker is registered")
	p.goes("w", "#/work")
	p.see(".empty", "engine submit hello")
	id := w.submit(streamwright.Item{Type: "hello"})
	p.see(".screen-head", "since")
	p.press("r")
	p.until(`document.querySelector('.work-table tbody tr')?.dataset.id === ` + quote(id))
	if strings.Contains(p.text(".screen"), "Nothing has been submitted") {
		t.Error("it still says that nothing has been submitted")
	}
}
