package pagetest

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Somebody answers an item that waits: the page shows what it waits for, and sends the
// signal with a payload once, in spite of one that is no JSON.
func TestSignalFromThePage(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.worker("w-1", 1, map[string]workers.Handler{"order": func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Waited == nil {
			return nil, workers.WaitAny("paid", "refused").For(time.Hour)
		}
		s, _ := it.Signal("paid")
		return s.Payload, nil
	}})
	id := w.submit(streamwright.Item{Type: "order"})
	w.await(id, events.StateWaiting)
	p := open(t, desktop, w.url+"#/work?type=order")
	p.see("tbody", "waits for the signal paid or refused")
	p = open(t, desktop, w.url+"#/work/"+id)
	p.see("main", "paid or refused")
	p.click(".item-head", "Signal")
	p.see("dialog h2", "Send a signal")
	p.fill("dialog textarea", `{"sum":`)
	p.click("dialog", "Send the signal")
	p.see("dialog", "JSON")
	p.fill("dialog textarea", `{"sum":3}`)
	p.click("dialog", "Send the signal")
	if it := w.await(id, events.StateCompleted); string(it.Result) != `{"sum":3}` || it.UnreadSignals != 0 {
		t.Errorf("the item gave %s", it.Result)
	}
	p.until(`!document.querySelector('dialog')`)
}
