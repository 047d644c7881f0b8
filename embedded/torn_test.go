package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A power cut in the midst of an append leaves a part of a frame, which nobody was told is
// stored: the engine starts with everything up to it, and goes on there.
func TestATornFrame(t *testing.T) {
	o := quiet(filepath.Join(t.TempDir(), "data"))
	o.Durability = config.Always
	e := mustStart(t, o)
	first := submit(t, e, wire.Submit{Type: "email"})
	stopEngine(t, e)
	// The projection is behind the log in a crash: this is what it had flushed.
	store, flushed := filepath.Join(o.Dir, "store"), filepath.Join(t.TempDir(), "flushed")
	if err := os.CopyFS(flushed, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	e = mustStart(t, o)
	second := submit(t, e, wire.Submit{Type: "email"})
	torn := submit(t, e, wire.Submit{Type: "email"})
	end, err := e.ledger.eventLog.End(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	stopEngine(t, e)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(store, os.DirFS(flushed)); err != nil {
		t.Fatal(err)
	}
	tear(t, filepath.Join(o.Dir, "jetstream"))

	e = mustStart(t, o)
	get(t, e, first)
	get(t, e, second)
	id, err := events.ParseID(torn.ID)
	if err != nil {
		t.Fatal(err)
	}
	if it, err := e.ledger.store.Item(id); it != nil || err != nil {
		t.Errorf("the item of the torn frame: %+v, %v", it, err)
	}
	if at := e.ledger.store.Applied().Frame(); at != end.Seq {
		t.Errorf("the new ownership is frame %d, want %d, where the torn one was", at, end.Seq)
	}
	get(t, e, submit(t, e, wire.Submit{Type: "email"}))
	verified(t, e)
	if n := len(aside(t, o.Dir)); n != 0 {
		t.Errorf("%d stores set aside", n)
	}
}

// tear cuts the last frame of an event log short, as a power cut does that comes before the
// server has written its index.
func tear(t *testing.T, folder string) {
	t.Helper()
	var block string
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if filepath.Base(filepath.Dir(filepath.Dir(path))) != "WORK_EVENTS_0" || err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".blk":
			block = max(block, path)
		case ".db":
			return os.Remove(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(block)
	if err == nil {
		err = os.Truncate(block, info.Size()-50)
	}
	if err != nil {
		t.Fatal(err)
	}
}
