package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// Items are found by what they died of, also after a restart on a store that an
// older program has left.
func TestSearch(t *testing.T) {
	o := quiet(t.TempDir())
	e, err := Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workers.New(nc, workers.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) {
		return nil, errors.New("dial tcp 10.0.0.7:25: connect: Connection refused")
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	sent := submit(t, e, wire.Submit{Type: "email", MaxAttempts: 1, DedupKey: "order 4711", Labels: map[string]string{"region": "eu"}})
	submit(t, e, wire.Submit{Type: "resize", Labels: map[string]string{"region": "us"}})
	waitFor(t, e, sent, events.StateDead)
	if err := w.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	search := func(c *streamwright.Client) {
		t.Helper()
		for _, f := range []streamwright.Filter{
			{Error: "connection refu"}, {Q: "refused"}, {Q: "order 4711"}, {Q: "eu"}, {Q: sent.ID}, {Q: "email"},
			{Label: "region=eu"}, {Error: "tcp", State: "dead", Type: "email", Label: "region=eu"},
		} {
			page, err := c.List(testContext(t), f)
			if err != nil || len(page.Items) != 1 || page.Items[0].ID != sent.ID {
				t.Errorf("%+v finds %+v, %v", f, page.Items, err)
			}
		}
		for _, f := range []streamwright.Filter{{Error: "connection reset"}, {Q: "order"}, {Q: "refused", State: "queued"}} {
			if page, err := c.List(testContext(t), f); err != nil || len(page.Items) != 0 {
				t.Errorf("%+v finds %+v, %v", f, page.Items, err)
			}
		}
		if page, err := c.DeadLetters().List(testContext(t), wire.Selection{List: wire.List{Error: "refused"}}); err != nil || len(page.Items) != 1 {
			t.Errorf("among the dead: %+v, %v", page, err)
		}
	}
	search(mustClient(t, e))
	stopEngine(t, e)
	// The format before had none of these indexes.
	if err := os.WriteFile(filepath.Join(o.Dir, "store", "CURRENT"), []byte("streamwright-projection 3 gen-000001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	search(mustClient(t, e))
}
