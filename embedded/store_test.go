package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

func aside(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, asidePrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// aged makes a data folder whose log ends before the store does: it submits
// before items, keeps a copy of the log, and submits behind more.
func aged(t *testing.T, behind int) (o Options, kept, lost wire.Submitted) {
	t.Helper()
	o = quiet(filepath.Join(t.TempDir(), "data"))
	o.Durability = config.Interval
	e := mustStart(t, o)
	kept = submit(t, e, wire.Submit{Type: "email"})
	stopEngine(t, e)
	log, old := filepath.Join(o.Dir, "jetstream"), filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(log)); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	for range behind {
		lost = submit(t, e, wire.Submit{Type: "email"})
	}
	stopEngine(t, e)
	if err := os.RemoveAll(log); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(log, os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	return o, kept, lost
}

// A power cut may take the end of a log that is synced each second: the engine
// starts from what is left, by itself, and keeps the store aside. Where each write
// is synced, a log that has lost its end is damaged or an old one.
func TestStoreAheadOfLog(t *testing.T) {
	o, kept, lost := aged(t, 20)
	o.Durability = config.Always
	if _, err := Start(testContext(t), o); events.CodeOf(err) != events.CodeLogLost || !strings.Contains(err.Error(), "--set-store-aside") {
		t.Fatalf("a log that has lost its end, and durability always: %v", err)
	}
	if n := len(aside(t, o.Dir)); n != 0 {
		t.Fatalf("%d stores set aside by a refused start", n)
	}
	o.Durability = config.Interval
	e := mustStart(t, o)
	get(t, e, kept)
	id, err := events.ParseID(lost.ID)
	if err != nil {
		t.Fatal(err)
	}
	if it, err := e.ledger.store.Item(id); it != nil || err != nil {
		t.Errorf("an item that the log has lost: %+v, %v", it, err)
	}
	verified(t, e)
	if n := len(aside(t, o.Dir)); n != 1 {
		t.Errorf("%d stores set aside", n)
	}
}

func verified(t *testing.T, e *Engine) {
	t.Helper()
	res, err := e.ledger.store.Verify(testContext(t), e.ledger.eventLog, nil)
	if err != nil || !res.Equal {
		t.Errorf("verify: %+v, %v", res, err)
	}
}

// A store that can't be read is made anew from a log that holds events, and kept.
// If there is no log, or an empty one, the start is refused.
func TestUnreadableStore(t *testing.T) {
	for name, spoil := range map[string]func(store string){
		"damaged": func(store string) { damage(t, store) },
		"old format": func(store string) {
			text := fmt.Sprintf("streamwright-projection %d gen-000001\n", projector.FormatVersion-1)
			if err := os.WriteFile(filepath.Join(store, "CURRENT"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := quiet(filepath.Join(t.TempDir(), "data"))
			e := mustStart(t, o)
			s := submit(t, e, wire.Submit{Type: "email"})
			stopEngine(t, e)
			spoil(filepath.Join(o.Dir, "store"))
			e = mustStart(t, o)
			get(t, e, s)
			verified(t, e)
			stopEngine(t, e)
			if n := len(aside(t, o.Dir)); n != 1 {
				t.Fatalf("%d stores set aside", n)
			}
			spoil(filepath.Join(o.Dir, "store"))
			logs, err := filepath.Glob(filepath.Join(o.Dir, "jetstream", "*", "streams", "WORK_EVENTS_0"))
			if err != nil || len(logs) != 1 {
				t.Fatal(logs, err)
			}
			if err := os.RemoveAll(logs[0]); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := Start(testContext(t), o); events.CodeOf(err) != events.CodeLogLost {
					t.Fatalf("no log, and a store that can't be read: %v", err)
				}
			}
			if n := len(aside(t, o.Dir)); n != 1 {
				t.Errorf("%d stores set aside", n)
			}
			if _, err := os.Stat(filepath.Join(o.Dir, "store", "CURRENT")); err != nil {
				t.Error(err)
			}
		})
	}
}
