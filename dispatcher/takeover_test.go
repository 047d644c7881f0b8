package dispatcher

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// A takeover projects what it reads of the log in commits that are bounded in
// bytes, not in events alone.
func TestTakeoverOfLargeItemsCommitsInSteps(t *testing.T) {
	stream := logtest.NewMemoryStream(0)
	submitLarge(t, stream, 600, 64<<10)
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	commits, largest, all := 0, 0, 0
	cfg := Config{Log: stream.Open(), Store: store, Alone: true, Owner: "next"}
	cfg.Hooks.Projected = func(c *core.Changes) {
		size := 0
		for _, d := range c.Documents {
			size += len(d.Data)
		}
		commits, largest, all = commits+1, max(largest, size), all+size
	}
	cfg = cfg.WithDefaults()
	_, _, last, err := takeOver(t.Context(), &cfg, newClocks(&cfg, func() time.Time { return simStart }), nil)
	if err != nil {
		t.Fatal(err)
	}
	if store.Applied() != last || all < 600*64<<10 {
		t.Fatalf("the store is at %d of %d, with %d bytes of documents", store.Applied(), last, all)
	}
	if bound := 2 * projector.ReplayBytes; largest > bound || commits < 6 {
		t.Errorf("%d bytes of documents in %d commits, the largest of %d: it must be at most %d", all, commits, largest, bound)
	}
}

// submitLarge appends items with so many bytes of params each.
func submitLarge(t testing.TB, stream *logtest.MemoryStream, items, size int) {
	t.Helper()
	state, err := core.NewState(core.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	log, last := stream.Open(), uint64(0)
	params := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	for n := range items {
		id := events.ID{0: 1, 14: byte(n >> 8), 15: byte(n)}
		d, err := core.Decide(state, core.Submit{Type: "email", NewID: id, Params: params}, simStart)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), last, &eventlog.Write{Before: state.Meta().Events, Events: d.Events}); err != nil {
			t.Fatal(err)
		}
		last++
		for i, ev := range d.Events {
			ev.Seq = events.SeqOf(last, i)
			if err := state.Apply(ev); err != nil {
				t.Fatal(err)
			}
		}
	}
}
