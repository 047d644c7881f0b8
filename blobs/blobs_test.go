package blobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

func anID(t testing.TB, s string) events.ID {
	t.Helper()
	id, err := events.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func itemID(t testing.TB, last string) events.ID { return anID(t, "01JD3V6YB2M4C9W8ZK5T7QXRN"+last) }

const goodDigest = "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="

func TestReferences(t *testing.T) {
	good := `{"$blob":{"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params","size":0,"digest":"` + goodDigest + `"}}`
	r, err := Parse([]byte(" \n" + strings.Replace(good, `{"$blob":`, `{ "$blob" : `, 1) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Document()) != good {
		t.Errorf("%s became %s", good, r.Document())
	}
	if r.Item() != itemID(t, "E") {
		t.Errorf("it belongs to %s", r.Item())
	}
	for _, ordinary := range []string{
		``, `null`, `"$blob"`, `[{"$blob":1}]`, `{"a":1}`, `{"$blobs":1}`, `{"$blob":{"name":"x"},"more":1}`, `{"more":1,"$blob":{}}`, `{"$blob":`,
		`{"$blob":"` + strings.Repeat("x", MaxRefBytes) + `"}`,
	} {
		if _, ok, err := Find([]byte(ordinary)); ok || err != nil {
			t.Errorf("%.40s is taken for a reference: %v %v", ordinary, ok, err)
		}
	}
	for was, is := range map[string]string{
		`"name":"01JD3V6YB2M4C9W8ZK5T7QXRNE.params",`: ``,

		`"size":0`:          `"size":-1`,
		`"size":0,"d`:       `"size":0,"more":1,"d`,
		`"size"`:            `"Sizes"`,
		`QXRNE.params`:      `QXRNE`,
		`.params`:           `.par ams`,
		`01JD3V6YB2M4C9W8Z`: `not-an-id-at-all!`,
		`SHA-256=`:          `SHA-1=`,
		`SuFU=`:             `SuF=`,
	} {
		bad := strings.Replace(good, was, is, 1)
		if bad == good {
			t.Fatalf("%s is not there", was)
		}
		if _, _, err := Find([]byte(bad)); events.CodeOf(err) != events.CodeBadParams {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// world is a NATS server with the bucket, and a janitor whose clock and items
// are the test's.
type world struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	store *Store
	j     *Janitor

	ahead     time.Duration // of the janitor's clock
	items     map[events.ID]bool
	undecided time.Time
}

func newWorld(t *testing.T, change func(*JanitorConfig)) *world {
	t.Helper()
	nc, err := nats.Connect(natscluster.Alone(t, 0).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w := &world{nc: nc, items: map[events.ID]bool{}}
	if w.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	if w.store, err = New(nc, wire.Default, 8<<20); err != nil {
		t.Fatal(err)
	}
	cfg := JanitorConfig{
		Conn: nc, Names: wire.Default, Bucket: BucketConfig{Memory: true, MaxBytes: 64 << 20}, SweepEvery: 24 * time.Hour,
		Exists:    func(_ context.Context, id events.ID) (bool, error) { return w.items[id], nil },
		Undecided: func(context.Context) (time.Time, error) { return w.undecided, nil },
		Now:       func() time.Time { return time.Now().Add(w.ahead) },
	}
	if change != nil {
		change(&cfg)
	}
	if w.j, err = NewJanitor(cfg); err != nil {
		t.Fatal(err)
	}
	if err := w.j.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.j.Stop)
	return w
}

func random(n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(n)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func (w *world) put(t *testing.T, id events.ID, kind Kind, doc []byte) Ref {
	t.Helper()
	ref, err := w.store.PutBytes(t.Context(), id, kind, doc)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// messages is how many messages the bucket holds.
func (w *world) messages(t *testing.T) uint64 {
	t.Helper()
	s, err := w.js.Stream(t.Context(), Stream(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func (w *world) sweep(t *testing.T) Swept {
	t.Helper()
	s, err := w.j.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

func TestPutAndGet(t *testing.T) {
	w := newWorld(t, nil)
	for _, n := range []int{0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3<<20 + 7} {
		doc := random(n)
		ref := w.put(t, itemID(t, "A"), Params, doc)
		got, err := w.store.Get(t.Context(), ref)
		if err != nil || !bytes.Equal(got, doc) {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
		before := w.messages(t)
		if again := w.put(t, itemID(t, "A"), Params, doc); again != ref {
			t.Errorf("the repeat has the reference %+v, the first %+v", again, ref)
		}
		if now := w.messages(t); now != before {
			t.Errorf("%d bytes: a repeat has added %d messages", n, now-before)
		}
	}
	if _, err := w.store.PutBytes(t.Context(), itemID(t, "A"), Params, random(8<<20+1)); events.CodeOf(err) != events.CodeTooLarge {
		t.Errorf("an object past the bound: %v", err)
	}
	huge := Ref{Name: itemID(t, "A").String() + ".x", Size: 8<<20 + 1, Digest: goodDigest}
	if _, err := w.store.Get(t.Context(), huge); events.CodeOf(err) != events.CodeTooLarge {
		t.Errorf("a reference past the bound: %v", err)
	}
}

// described is the first description of a name.
func (w *world) described(t *testing.T, name string) (first described) {
	t.Helper()
	if err := w.store.find(t.Context(), name, func(d described) bool { first = d; return true }); err != nil || first.seq == 0 {
		t.Fatalf("%s is not described: %v", name, err)
	}
	return first
}

// byHand puts an object as docs/guides/BLOBS.md has it for those without a client of
// ours: the chunk, and the description.
func (w *world) byHand(t *testing.T, name, nuid string, doc []byte) Ref {
	t.Helper()
	sum := sha256.Sum256(doc)
	ref := Ref{Name: name, Size: int64(len(doc)), Digest: digestOf(sum[:])}
	if len(doc) > 0 {
		if _, err := w.js.Publish(t.Context(), w.store.chunkSubject(nuid), doc); err != nil {
			t.Fatal(err)
		}
	}
	w.describe(t, ref, nuid)
	return ref
}

func (w *world) describe(t *testing.T, ref Ref, nuid string) {
	t.Helper()
	info, err := json.Marshal(map[string]any{"name": ref.Name, "bucket": Bucket(wire.Default), "nuid": nuid, "size": ref.Size, "digest": ref.Digest, "chunks": 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.js.Publish(t.Context(), w.store.metaSubject(ref.Name), info); err != nil {
		t.Fatal(err)
	}
}

// Objects that are put by hand are read, and ours by other clients.
func TestOtherClients(t *testing.T) {
	w := newWorld(t, nil)
	obs, err := w.js.ObjectStore(t.Context(), Bucket(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	doc := random(1 << 19)
	theirs := w.byHand(t, itemID(t, "B").String()+".params", "abc123", doc)
	got, err := w.store.Get(t.Context(), theirs)
	if err != nil || !bytes.Equal(got, doc) {
		t.Errorf("theirs: %d bytes, %v", len(got), err)
	}
	if got, err := obs.GetBytes(t.Context(), theirs.Name); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("theirs, by nats.go: %d bytes, %v", len(got), err)
	}
	ref := w.put(t, itemID(t, "B"), Result, doc)
	if got, err := obs.GetBytes(t.Context(), ref.Name); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("ours: %d bytes, %v", len(got), err)
	}
}

func TestGoneAndDamaged(t *testing.T) {
	w := newWorld(t, nil)
	doc := random(1 << 20)
	ref := w.put(t, itemID(t, "C"), Params, doc)
	other := ref
	other.Name = itemID(t, "C").String() + ".result"
	if _, err := w.store.Get(t.Context(), other); !errors.Is(err, ErrGone) || !Permanent(err) {
		t.Errorf("no such object: %v", err)
	}
	other = ref
	other.Digest = goodDigest
	if _, err := w.store.Get(t.Context(), other); !errors.Is(err, ErrDamaged) {
		t.Errorf("another digest: %v", err)
	}
	info := w.described(t, ref.Name)
	s, err := w.js.Stream(t.Context(), Stream(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	chunk, err := s.GetMsg(t.Context(), 3, jetstream.WithGetMsgSubject(w.store.chunkSubject(info.NUID)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteMsg(t.Context(), chunk.Sequence); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Get(t.Context(), ref); !errors.Is(err, ErrDamaged) || !Permanent(err) {
		t.Errorf("a chunk is missing: %v", err)
	}
	forged := bytes.Clone(chunk.Data)
	forged[0]++
	if _, err := w.js.Publish(t.Context(), chunk.Subject, forged); err != nil {
		t.Fatal(err)
	}
	r, err := w.store.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, ErrDamaged) || n == int64(len(doc)) {
		t.Errorf("other bytes are taken for the chunk: %d, %v", n, err)
	}
	r.Close()
	if err := w.js.DeleteStream(t.Context(), Stream(wire.Default)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Get(t.Context(), ref); Permanent(err) || events.CodeOf(err) != events.CodeUnavailable {
		t.Errorf("no bucket: %v", err)
	}
}

func TestFullBucketPushesBack(t *testing.T) {
	w := newWorld(t, func(c *JanitorConfig) { c.Bucket.MaxBytes = 1 << 20 })
	_, err := w.store.PutBytes(t.Context(), itemID(t, "D"), Params, random(2<<20))
	if events.CodeOf(err) != events.CodeUnavailable || !strings.Contains(err.Error(), "blob_max_size") {
		t.Errorf("%v", err)
	}
}

func TestPrunedItemsTakeTheirObjectsAlong(t *testing.T) {
	w := newWorld(t, nil)
	stays, goes := itemID(t, "E"), itemID(t, "F")
	kept := w.put(t, stays, Params, random(300_000))
	w.put(t, goes, Params, random(400_000))
	w.put(t, goes, Result, random(500_000))
	w.put(t, goes, Result, random(500_001)) // of another attempt
	await(t, "the watch", func() bool {
		w.j.mu.Lock()
		defer w.j.mu.Unlock()
		return w.j.count == 4
	})
	w.j.Pruned([]*events.Item{{ID: goes}, {ID: itemID(t, "G")}})
	await(t, "the deletion", func() bool { return w.messages(t) == 4 }) // three chunks and a description
	if _, err := w.store.Get(t.Context(), kept); err != nil {
		t.Errorf("the other item's: %v", err)
	}
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	if w.j.count != 1 || len(w.j.objects) != 1 || len(w.j.pruned) != 0 {
		t.Errorf("%d objects of %d items are tracked, %d pruned", w.j.count, len(w.j.objects), len(w.j.pruned))
	}
}

func TestSweep(t *testing.T) {
	w := newWorld(t, nil)
	live, orphan := itemID(t, "H"), itemID(t, "J")
	w.items[live] = true
	kept := w.put(t, live, Params, random(300_000))
	w.put(t, orphan, Params, random(300_000))
	// A put that did not come to its end, and an object that is none of ours.
	if _, err := w.js.Publish(t.Context(), w.store.chunkSubject("halfway"), random(1000)); err != nil {
		t.Fatal(err)
	}
	somebodys := w.byHand(t, "somebody's", "theirs", []byte("file"))
	if _, err := w.js.Publish(t.Context(), w.store.metaSubject(itemID(t, "K").String()+".params"), []byte(`{"deleted":true}`)); err != nil {
		t.Fatal(err)
	}
	w.ahead = 59 * time.Minute
	if s := w.sweep(t); s != (Swept{}) {
		t.Errorf("a janitor that has just begun swept %+v", s)
	}
	w.ahead = 3 * time.Hour
	w.undecided = time.Now().Add(30 * time.Minute)
	if s := w.sweep(t); s != (Swept{Objects: 4}) {
		t.Errorf("with an old submission undecided it swept %+v", s)
	}
	w.undecided = time.Time{}
	if s := w.sweep(t); s != (Swept{Objects: 4, Orphans: 1, Marks: 1, Partials: 1}) {
		t.Errorf("it swept %+v", s)
	}
	if s := w.sweep(t); s != (Swept{Objects: 2}) {
		t.Errorf("again it swept %+v", s)
	}
	if _, err := w.store.Get(t.Context(), kept); err != nil {
		t.Errorf("the item's: %v", err)
	}
	if got, err := w.store.Get(t.Context(), somebodys); string(got) != "file" {
		t.Errorf("somebody's: %q, %v", got, err)
	}
}

// An object that is put anew while the old one is being deleted stays.
func TestPutAnewStays(t *testing.T) {
	w := newWorld(t, nil)
	doc := random(200_000)
	ref := w.put(t, itemID(t, "R"), Params, doc)
	old := w.described(t, ref.Name)
	msg, err := w.store.get(t.Context(), directget.Request{Seq: 1, NextFor: w.store.metaSubject(ref.Name)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.send(t.Context(), ref, bytes.NewReader(doc)); err != nil {
		t.Fatal(err)
	}
	if err := w.j.remove(t.Context(), object{name: ref.Name, nuid: old.NUID, seq: msg.Seq, at: msg.Time}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.store.Get(t.Context(), ref); err != nil || !bytes.Equal(got, doc) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := w.messages(t); n != 3 {
		t.Errorf("%d messages are left of two chunks and a description", n)
	}
}

// What does not fit among the tracked is left to the sweep.
func TestTrackedObjectsAreBounded(t *testing.T) {
	w := newWorld(t, func(c *JanitorConfig) { c.MaxTracked = 2 })
	for _, last := range []string{"M", "N", "P"} {
		w.put(t, itemID(t, last), Params, random(1000))
	}
	await(t, "the watch", func() bool {
		w.j.mu.Lock()
		defer w.j.mu.Unlock()
		return w.j.over
	})
	for _, last := range []string{"M", "N", "P"} {
		w.j.Pruned([]*events.Item{{ID: itemID(t, last)}})
	}
	await(t, "the deletion", func() bool { return w.messages(t) == 2 })
	w.ahead = 2 * time.Hour
	if s := w.sweep(t); s.Orphans != 1 || w.messages(t) != 0 {
		t.Errorf("%+v, and %d messages are left", s, w.messages(t))
	}
}

// The sweep makes a bucket that somebody has deleted again.
func TestDeletedBucketComesBack(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.js.DeleteStream(t.Context(), Stream(wire.Default)); err != nil {
		t.Fatal(err)
	}
	w.ahead = 2 * time.Hour
	w.sweep(t)
	ref := w.put(t, itemID(t, "Q"), Params, []byte(`{}`))
	if doc, err := w.store.Get(t.Context(), ref); err != nil || string(doc) != `{}` {
		t.Errorf("%s, %v", doc, err)
	}
}
