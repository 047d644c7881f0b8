package blobs

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// once is a document that can be read only once, and fails at its end.
func once(doc []byte, err error) io.Reader {
	return io.MultiReader(bytes.NewReader(doc), failing{err})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestPutFromAReader(t *testing.T) {
	w := newWorld(t, nil)
	for _, n := range []int{0, 1, chunkBytes, 3<<20 + 7, 8 << 20} {
		doc := random(n)
		ref, err := w.store.PutFrom(t.Context(), itemID(t, "A"), Params, once(doc, io.EOF))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.store.Get(t.Context(), ref); err != nil || !bytes.Equal(got, doc) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
		before := w.messages(t)
		if again, err := w.store.PutFrom(t.Context(), itemID(t, "A"), Params, once(doc, io.EOF)); err != nil || again != ref {
			t.Errorf("the repeat has the reference %+v, the first %+v: %v", again, ref, err)
		}
		if same := w.put(t, itemID(t, "A"), Params, doc); same != ref {
			t.Errorf("Put names it %+v", same)
		}
		if now := w.messages(t); now != before {
			t.Errorf("%d bytes: repeats have left %d messages", n, now-before)
		}
	}
}

// What comes to nothing leaves nothing.
func TestPutFromThatFails(t *testing.T) {
	w := newWorld(t, nil)
	broken := errors.New("broken off")
	if _, err := w.store.PutFrom(t.Context(), itemID(t, "A"), Params, once(random(2<<20), broken)); err == nil {
		t.Error("a document that breaks off is stored")
	}
	if _, err := w.store.PutFrom(t.Context(), itemID(t, "A"), Params, once(random(8<<20+1), io.EOF)); events.CodeOf(err) != events.CodeTooLarge {
		t.Errorf("a document past the bound: %v", err)
	}
	await(t, "the end of the chunks", func() bool { return w.messages(t) == 0 })
}

func TestRemove(t *testing.T) {
	w := newWorld(t, nil)
	ref, other := w.put(t, itemID(t, "A"), Params, random(1<<20)), w.put(t, itemID(t, "B"), Params, random(1<<20))
	wrong := ref
	wrong.Digest = goodDigest
	if err := w.store.Remove(t.Context(), wrong); err != nil {
		t.Error(err)
	}
	if _, err := w.store.Get(t.Context(), ref); err != nil {
		t.Errorf("it went with a reference to something else: %v", err)
	}
	before := w.messages(t)
	for range 2 {
		if err := w.store.Remove(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.store.Get(t.Context(), ref); !errors.Is(err, ErrGone) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := w.store.Get(t.Context(), other); err != nil || w.messages(t) != before/2 {
		t.Errorf("another: %v; %d messages of %d", err, w.messages(t), before)
	}
	w.ahead = 3 * DefaultGrace
	w.items[itemID(t, "B")] = true
	if s := w.sweep(t); s.Objects != 1 || s.Orphans+s.Partials+s.Marks != 0 {
		t.Errorf("the sweep: %+v", s)
	}
}
