package pagetest

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Bounds of what a page may hold, and of what it may do to its document: a person
// reads no more than that, so the rest is sampled. They say nothing of time, which on
// a busy machine is not the page's own; docs/operate/PAGE.md has what was measured.
const (
	maxNodes   = 4000
	maxChanges = 400 // a second
)

func TestThePageStaysQuickUnderLoad(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.worker("w-1", 32, map[string]workers.Handler{"tick": func(_ context.Context, it *workers.RawItem) (any, error) { return nil, nil }})
	const all = 4000
	for _, hash := range []string{"#/", "#/work?type=tick"} {
		t.Run(hash, func(t *testing.T) {
			p := open(t, desktop, w.url+hash)
			p.see(".connection", "live")
			p.eval(`(() => {
				Object.assign(window, { changes: 0, frames: 0 });
				new MutationObserver((list) => { window.changes += list.length; }).observe(document, { childList: true, characterData: true, attributes: true, subtree: true });
				const f = () => { window.frames++; requestAnimationFrame(f); };
				requestAnimationFrame(f);
			})()`, nil)
			began := time.Now()
			items := make([]streamwright.Item, all)
			for i := range items {
				items[i] = itemOf("tick")
			}
			subs, err := w.client.SubmitMany(w.ctx, items)
			if err != nil {
				t.Fatal(err)
			}
			w.await(subs[all-1].ID, events.StateCompleted)
			var seen struct{ Nodes, Changes, Frames float64 }
			p.eval(`({ Nodes: document.querySelectorAll('*').length, Changes: window.changes, Frames: window.frames })`, &seen)
			took := time.Since(began)
			t.Logf("%d events in %v: %.0f elements, %.0f changes, %.0f frames", all*5, took.Round(time.Millisecond), seen.Nodes, seen.Changes, seen.Frames)
			if most := maxChanges * (1 + took.Seconds()); seen.Nodes > maxNodes || seen.Changes > most {
				t.Errorf("at most %d elements and %.0f changes are allowed", maxNodes, most)
			}
			p.goes("o", "#/")
			p.see("h1", "Overview")
			p.see(`[data-tile="queued"] .tile-value`, "0")
		})
	}
}
