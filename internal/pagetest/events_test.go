package pagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// seqs are the positions of the events that are shown, the newest first.
func (p *tab) seqs() (out []int) {
	p.t.Helper()
	var text []string
	p.eval(`[...document.querySelectorAll('.events tbody tr')].map((tr) => tr.dataset.seq)`, &text)
	for _, s := range text {
		n, err := strconv.Atoi(s)
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func TestEventsAreFollowedAndFiltered(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/events")
	p.see(".connection", "live")
	p.see(".screen-head", "Live")
	p.see(".events", tail(s.unserved)) // what was last, at once
	id := w.submit(streamwright.Item{Type: "archive"})
	p.see(".events", tail(id))
	p.see(".events", "created")

	p.choose(".filters select", "charge")
	p.until(`location.hash === '#/events?type=charge'`)
	p.choose(".filters label:nth-of-type(4) select", "1h")
	p.see(".events", tail(s.dead))
	p.see(".events", "card_declined")
	p.gone(".events", "archive")
	p.choose(".filters label:nth-of-type(2) select", "failed,dead,rejected,cause_noted,circuit_opened")
	p.until(`document.querySelector('.events tbody tr') && [...document.querySelectorAll('.events tbody tr')].every((tr) => ['failed', 'dead', 'cause_noted'].includes(tr.dataset.kind))`)
	p.click(".events", tail(s.dead))
	p.see(".item-state", "dead")

	p = open(t, desktop, w.url+"#/events?since=1h&id="+s.retried)
	p.see(".events", "completed")
	p.until(fmt.Sprintf(`[...document.querySelectorAll('.events tbody tr')].every((tr) => tr.innerText.includes(%s))`, quote(tail(s.retried))))
	p.click(".events tbody tr:last-child", p.text(".events tbody tr:last-child .e-seq"))
	p.see("dialog", "grace@example.org") // all that the event says
}

// The log holds more than a page: back to its beginning, every event once, and
// on again.
func TestTheLogIsLookedBackThrough(t *testing.T) {
	t.Parallel()
	w := start(t)
	const all = 150
	items := make([]streamwright.Item, all)
	for i := range items {
		items[i] = itemOf("page")
	}
	if _, err := w.client.SubmitMany(w.ctx, items); err != nil {
		t.Fatal(err)
	}
	p := open(t, desktop, w.url+"#/events")
	p.see(".screen-head", "Live")
	p.press("s")
	p.see(".screen-head", "Stopped")
	p.until(`document.querySelectorAll('.events tbody tr').length === 200`)
	log := w.positions(p.seqs()[0])
	var shown, page []int
	for {
		page = p.seqs()
		shown = append(shown, page...)
		var end bool
		if p.eval(`document.querySelector('.pager').innerText.includes('the log holds none older')`, &end); end {
			break
		}
		p.press("]")
		p.until(fmt.Sprintf(`Number(document.querySelector('.events tbody tr').dataset.seq) < %d`, page[0]))
	}
	if slices.Reverse(shown); !slices.Equal(shown, log) {
		t.Errorf("shown are %d: %v\nthe log has %d: %v", len(shown), shown, len(log), log)
	}
	p.click(".pager", "Newer")
	p.until(fmt.Sprintf(`Number(document.querySelector('.events tbody tr').dataset.seq) > %d`, page[0]))

	id := w.submit(itemOf("other")) // not while it is stopped
	p.gone(".events", tail(id))
	p.click(".screen-head", "Resume live")
	p.see(".screen-head", "Live")
	p.until(`document.querySelector('.screen-head .hint').innerText.startsWith('Live')`)
	p.see(".events", tail(id))
	later := w.submit(itemOf("other"))
	p.see(".events", tail(later))
}

// positions are those of the log's events, up to one.
func (w *world) positions(last int) (all []int) {
	w.t.Helper()
	done := errors.New("done")
	err := w.client.Tail(w.ctx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		if all = append(all, int(ev.Seq)); int(ev.Seq) >= last {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.t.Fatal(err)
	}
	return all
}

// What retention has cut from the log is said wherever a look back ends there: with and
// without filters, and where a look begins before it.
func TestALookBackSaysWhatIsNoLongerThere(t *testing.T) {
	t.Parallel()
	w := start(t)
	gone := w.submit(itemOf("gone"))
	items := make([]streamwright.Item, 120)
	for i := range items {
		items[i] = itemOf("page")
	}
	if _, err := w.client.SubmitMany(w.ctx, items); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.client.Cancel(w.ctx, gone, "not wanted"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Engine().Cut(w.ctx); err != nil {
		t.Fatal(err)
	}
	first := w.cut()
	for _, submitted := range []string{"rare", "late"} {
		w.submit(itemOf(submitted))
	}
	said := fmt.Sprintf("Events up to %s are gone", grouped(first-1))

	p := open(t, desktop, w.url+"#/events")
	p.see(".screen-head", "Live")
	p.press("s")
	p.see(".screen-head", "Stopped")
	for p.until(`document.querySelector('.events tbody tr') && !document.querySelector('.events').ariaBusy`); ; {
		page := p.seqs()
		var end bool
		if p.eval(`document.querySelector('.pager').innerText.includes('the log holds none older')`, &end); end {
			if oldest := page[len(page)-1]; oldest != first {
				t.Errorf("the oldest event shown is %d, the log's first %d", oldest, first)
			}
			break
		}
		p.press("]")
		p.until(fmt.Sprintf(`Number(document.querySelector('.events tbody tr')?.dataset.seq) < %d || document.querySelector('.pager').innerText.includes('none older')`, page[0]))
	}
	p.see(".pager", said)

	p = open(t, desktop, w.url+"#/events?type=rare")
	p.see(".screen-head", "Live")
	p.press("s")
	p.see(".events", "created")
	p.see(".pager", said)
	p.press("]")
	p.see(".pager", said)

	p = open(t, desktop, w.url+"#/events?kind=rejected")
	p.see(".screen-head", "Live")
	p.press("s")
	p.see(".empty", said)

	p = open(t, phone, w.url+"#/events?since=1h")
	p.see(".screen-head", said)
	p.see(".events", "rare")
	p = open(t, desktop, w.url+"#/events?from=2") // in the middle of what is gone
	p.see(".screen-head", said)
}

// cut waits until the log is cut, and returns its first position.
func (w *world) cut() (first int) {
	w.t.Helper()
	w.within(patience, "the log is cut", func() bool {
		info, err := w.client.Engine().Info(w.ctx)
		if err != nil {
			w.t.Fatal(err)
		}
		r := info.Retention
		if r == nil || r.Round != "" {
			return false
		}
		first, err = strconv.Atoi(string(r.LogFirst))
		return err == nil && first > events.FrameEvents
	})
	return first
}

// grouped is a number as the page writes it.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func TestAFilteredLookBackFindsWhatLiesDeep(t *testing.T) {
	t.Parallel()
	w := start(t)
	rare := w.submit(itemOf("rare"))
	items := make([]streamwright.Item, 600)
	for i := range items {
		items[i] = itemOf("page")
	}
	if _, err := w.client.SubmitMany(w.ctx, items); err != nil {
		t.Fatal(err)
	}
	p := open(t, desktop, w.url+"#/events?type=rare")
	p.see(".events", tail(rare)) // at once, without a look back
	p.press("s")
	p.see(".screen-head", "Stopped")
	p.see(".events", tail(rare))
}

func TestEventsAreSampledUnderLoad(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.worker("w-1", 32, map[string]workers.Handler{"tick": func(context.Context, *workers.RawItem) (any, error) { return nil, nil }})
	p := open(t, desktop, w.url+"#/events")
	p.see(".screen-head", "Live")
	items := make([]streamwright.Item, 1000)
	for i := range items {
		items[i] = itemOf("tick")
	}
	for range 2 {
		subs, err := w.client.SubmitMany(w.ctx, items)
		if err != nil {
			t.Fatal(err)
		}
		w.await(subs[len(subs)-1].ID, events.StateCompleted)
	}
	p.see(".screen-head", "left out to keep this readable")
	var rows int
	if p.eval(`document.querySelectorAll('.events tbody tr').length`, &rows); rows == 0 || rows > 200 {
		t.Errorf("%d rows are shown", rows)
	}
	p.press("s")
	// Those that are left out are read from the log, and take the place of what was sampled.
	w.within(patience, "a whole page of the log", func() bool {
		shown := p.seqs()
		if len(shown) != 200 {
			return false
		}
		slices.Reverse(shown)
		log := w.positions(shown[199])
		return slices.Equal(shown, log[len(log)-200:])
	})
}
