package retention

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// emptyLog returns a log that goes on behind a frame.
func emptyLog(frame uint64) *logtest.Memory {
	s := logtest.NewMemoryStream(0)
	for range frame {
		s.Inject(nil, nil)
	}
	s.Trim(frame + 1)
	return s.Open()
}

// The log that Salvage writes stands alone: a replay of it gives the store.
func TestSalvage(t *testing.T) {
	h := newHouse(t, nil)
	big := json.RawMessage(`"` + strings.Repeat("x", events.MaxParamsBytes-2) + `"`)
	const items = 40
	for i := range items {
		c := core.Submit{DedupKey: []string{"", "key"}[i%2]}
		if i%4 == 0 {
			c.Params = big
		}
		if id := h.submit(c); i%6 == 0 {
			h.end(id, events.StateDead)
		}
	}
	h.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: "bad_params", Message: "no", Text: "{", Intake: events.Intake{Seq: 9}}})
	retained := h.k.Status().Retained
	log, last := emptyLog(h.store.Applied().Frame()), int64(0)
	cfg := SalvageConfig{Log: log, Store: h.store, Defaults: events.DefaultTypeSettings(), Logger: slog.New(slog.DiscardHandler)}
	err := Salvage(context.Background(), cfg, func(done, total int64) {
		if done < last || done > total || total != retained {
			t.Errorf("%d of %d items are carried, after %d", done, total, last)
		}
		last = done
	})
	if err != nil || last != retained {
		t.Fatalf("%d of %d items: %v", last, retained, err)
	}
	tip, err := log.Last(context.Background())
	h.ok(err)
	if tip.Seq != h.store.Applied().Frame() || tip.Seq < tip.First+1 {
		t.Fatalf("the log holds %d to %d, the store is at %d", tip.First, tip.Seq, h.store.Applied().Frame())
	}
	alike(t, h.store, log)
}

func TestSalvageNeedsAnEmptyLog(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(core.Submit{})
	at := h.store.Applied()
	for name, log := range map[string]*logtest.Memory{"its own": h.log, "too early": emptyLog(at.Frame() - 1), "too late": emptyLog(at.Frame() + 1)} {
		err := Salvage(context.Background(), SalvageConfig{Log: log, Store: h.store}, nil)
		if err == nil || !strings.Contains(err.Error(), "it must be empty and go on there") || h.store.Applied() != at {
			t.Errorf("%s: %v, the store is at %d", name, err, h.store.Applied())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Salvage(ctx, SalvageConfig{Log: emptyLog(at.Frame()), Store: h.store}, nil); err == nil {
		t.Error("it goes on after its context has ended")
	}
}
