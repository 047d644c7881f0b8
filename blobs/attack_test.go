package blobs

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

// readable fails the test unless an object is there, whole.
func (w *world) readable(t *testing.T, when string, ref Ref, doc []byte) {
	t.Helper()
	if got, err := w.store.Get(t.Context(), ref); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("%s: %d bytes, %v", when, len(got), err)
	}
	r, err := w.store.Open(t.Context(), ref)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("%s: %d bytes as a stream, %v", when, len(got), err)
	}
}

// The name of the chunks is what a client wrote. None has the janitor purge the
// chunks of others, by a wildcard or by their name.
func TestDescriptionsThatClaimOthersChunks(t *testing.T) {
	w := newWorld(t, nil)
	victim, attacker := itemID(t, "A"), itemID(t, "B")
	w.items[victim] = true
	doc := random(300_000)
	ref := w.put(t, victim, Params, doc)
	theirs := w.described(t, ref.Name).NUID
	foreign := w.byHand(t, victim.String()+".more", "byhand", []byte("more"))
	for _, nuid := range []string{">", "*", theirs, "byhand", "", "a.b", "a b"} {
		w.describe(t, Ref{Name: attacker.String() + ".x" + goodDigest[8:20], Size: 1, Digest: goodDigest}, nuid)
		// An item of the attacker's is pruned.
		await(t, "the watch", func() bool {
			w.j.mu.Lock()
			defer w.j.mu.Unlock()
			return !validNUID(nuid) || len(w.j.objects[attacker]) > 0
		})
		w.j.Pruned([]*events.Item{{ID: attacker}})
		await(t, "the deletion", func() bool {
			w.j.mu.Lock()
			defer w.j.mu.Unlock()
			return len(w.j.objects[attacker]) == 0
		})
		w.readable(t, "after "+nuid+" was pruned", ref, doc)
		w.readable(t, "after "+nuid+" was pruned", foreign, []byte("more"))
	}
	// And what a sweep finds of no item.
	for _, nuid := range []string{">", "*", theirs, "byhand"} {
		w.describe(t, Ref{Name: attacker.String() + ".y", Size: 1, Digest: goodDigest}, nuid)
	}
	for _, subject := range []string{w.store.chunkSubject(">"), w.store.chunkSubject("*")} { // a server takes such publishes
		_ = w.nc.Publish(subject, []byte("x"))
	}
	w.ahead = 3 * time.Hour
	w.sweep(t)
	w.ahead = 6 * time.Hour
	w.sweep(t)
	w.readable(t, "after a sweep", ref, doc)
	w.readable(t, "after a sweep", foreign, []byte("more"))
	// What goes is the victim's own, with its item.
	delete(w.items, victim)
	w.sweep(t)
	w.sweep(t)
	if _, err := w.store.Get(t.Context(), ref); !errors.Is(err, ErrGone) {
		t.Errorf("an item that is gone has its object: %v", err)
	}
}

// Headers that make the server do something to other messages are refused.
func TestHeadersThatTouchOtherMessages(t *testing.T) {
	w := newWorld(t, nil)
	doc := random(300_000)
	ref := w.put(t, itemID(t, "A"), Params, doc)
	meta, chunk := w.store.metaSubject(ref.Name), w.store.chunkSubject(w.described(t, ref.Name).NUID)
	for _, h := range [][2]string{
		{"Nats-Rollup", "all"}, {"Nats-Rollup", "sub"}, {"Nats-TTL", "1s"}, {"Nats-Schedule", "@every 1s"}, {"Nats-Incr", "1"}, {"Nats-Batch-Id", "x"}, {"Nats-Batch-Sequence", "1"},
	} {
		for _, subject := range []string{meta, chunk} {
			m := nats.NewMsg(subject)
			m.Data = []byte("x")
			m.Header.Set(h[0], h[1])
			if h[0] == "Nats-Batch-Id" {
				m.Header.Set("Nats-Batch-Sequence", "1")
				m.Header.Set("Nats-Batch-Commit", "1")
			}
			if h[0] == "Nats-Schedule" {
				m.Header.Set("Nats-Schedule-Target", chunk)
			}
			if ack, err := w.js.PublishMsg(t.Context(), m); err == nil && h[0] != "Nats-Batch-Sequence" {
				t.Errorf("%s: %s on %s is accepted: %+v", h[0], h[1], subject, ack)
			}
			w.readable(t, h[0], ref, doc)
		}
	}
}

// Who puts something else under the name of an object, or marks it as deleted,
// hides it from nobody, and the sweep keeps it.
func TestObjectsThatArePutOver(t *testing.T) {
	w := newWorld(t, nil)
	id := itemID(t, "A")
	w.items[id] = true
	doc := random(300_000)
	ref := w.put(t, id, Params, doc)
	w.byHand(t, ref.Name, "other", []byte("another document"))
	w.describe(t, ref, "nothing") // the right digest, and no chunks
	w.describe(t, ref, w.described(t, ref.Name).NUID)
	for _, body := range []string{`{"name":"` + ref.Name + `","nuid":"x","deleted":true}`, `{}`, `no description`, ``} {
		m := nats.NewMsg(w.store.metaSubject(ref.Name))
		m.Data = []byte(body)
		m.Header.Set("Status", "404")
		if _, err := w.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.js.Publish(t.Context(), w.store.chunkSubject(w.described(t, ref.Name).NUID), []byte("a chunk too many")); err != nil {
		t.Fatal(err)
	}
	w.readable(t, "at once", ref, doc)
	w.ahead = 3 * time.Hour
	if s := w.sweep(t); s.Orphans != 0 || s.Marks != 4 {
		t.Errorf("it swept %+v", s)
	}
	w.ahead = 6 * time.Hour
	w.sweep(t)
	w.readable(t, "after two sweeps", ref, doc)
	// A copy that is whole is found behind one that is not.
	broken := Ref{Name: id.String() + ".copy", Size: ref.Size, Digest: ref.Digest}
	w.describe(t, broken, "nothing")
	if _, err := w.js.Publish(t.Context(), w.store.chunkSubject("short"), doc[:1000]); err != nil {
		t.Fatal(err)
	}
	w.describe(t, broken, "short")
	w.byHand(t, broken.Name, "whole", doc)
	if got, err := w.store.Get(t.Context(), broken); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("behind broken ones: %d bytes, %v", len(got), err)
	}
}

// A bucket of an earlier engine is brought to this, with what is in it.
func TestBucketsOfEarlierEngines(t *testing.T) {
	w := newWorld(t, nil)
	s, err := w.js.Stream(t.Context(), Stream(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	conf := s.CachedInfo().Config
	conf.AllowRollup = true
	if _, err := w.js.UpdateStream(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	obs, err := w.js.ObjectStore(t.Context(), Bucket(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	id := itemID(t, "A")
	doc := random(300_000)
	info, err := obs.PutBytes(t.Context(), id.String()+".params", doc)
	if err != nil {
		t.Fatal(err)
	}
	ref := Ref{Name: info.Name, Size: int64(info.Size), Digest: info.Digest}
	if err := w.store.makeBucket(t.Context(), w.j.cfg.Bucket); err != nil {
		t.Fatal(err)
	}
	if s, err = w.js.Stream(t.Context(), Stream(wire.Default)); err != nil || s.CachedInfo().Config.AllowRollup {
		t.Errorf("rollups are still allowed, %v", err)
	}
	w.readable(t, "put by an earlier client", ref, doc)
	if _, err := obs.PutBytes(t.Context(), id.String()+".params", doc); err == nil {
		t.Error("a put with a rollup is accepted")
	}
	w.ahead = 3 * time.Hour
	w.sweep(t) // of no item
	w.sweep(t)
	if _, err := w.store.Get(t.Context(), ref); !errors.Is(err, ErrGone) {
		t.Errorf("it is still there: %v", err)
	}
	if n := w.messages(t); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

// meddled is a document in the midst of whose second reading fn is called, when
// a part of it has been sent.
type meddled struct {
	*bytes.Reader
	seeks, reads int
	fn           func()
}

func (m *meddled) Seek(offset int64, whence int) (int64, error) {
	m.seeks++
	return m.Reader.Seek(offset, whence)
}

func (m *meddled) Read(p []byte) (int, error) {
	if m.seeks == 2 {
		if m.reads++; m.reads == 3 {
			m.fn()
		}
	}
	return m.Reader.Read(p)
}

// Chunks that somebody puts between those of an object that is under way, or
// behind them, do not damage it.
func TestChunksBetweenThoseOfAnother(t *testing.T) {
	w := newWorld(t, nil)
	id := itemID(t, "A")
	w.items[id] = true
	doc := random(1 << 20)
	insert := func() {
		await(t, "the first chunk", func() bool {
			msg, err := w.store.get(t.Context(), directget.Request{Seq: 1, NextFor: w.store.chunkSubject("*")})
			if err == nil {
				_, err = w.nc.Request(msg.Subject, []byte("no part of it"), requestTimeout)
			}
			return err == nil
		})
	}
	ref, err := w.store.Put(t.Context(), id, Params, &meddled{Reader: bytes.NewReader(doc), fn: insert})
	if err != nil {
		t.Fatal(err)
	}
	insert()
	w.readable(t, "with foreign chunks", ref, doc)
}
