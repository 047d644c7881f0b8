package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/process"
)

// largeDoc is a JSON document of n bytes.
func largeDoc(n int) json.RawMessage {
	b := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
	b[0], b[n-1] = '"', '"'
	return b
}

func handleLarge(t *testing.T, e *Engine, typ string, h workers.Handler) {
	t.Helper()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w, err := workers.New(nc, workers.Config{Names: e.clientNames(), Concurrency: 2, Logger: e.log})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, typ, h)
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Errorf("stop worker: %v", err)
		}
	})
}

func TestLargeDocuments(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, o := range map[string]Options{"memory": {Memory: true}, "files": quiet(t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			e := mustStart(t, o)
			c := mustClient(t, e)
			params, result := largeDoc(5<<20), largeDoc(3<<20)
			handleLarge(t, e, "large", func(_ context.Context, it *workers.RawItem) (any, error) {
				if !bytes.Equal(it.Raw, params) {
					return nil, workers.Permanent(errors.New("the handler has other params"))
				}
				return result, nil
			})
			item := streamwright.Item{Type: "large", Params: params, ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE"}
			for range 2 { // the repeat finds the first
				if _, err := c.Submit(testContext(t), item); err != nil {
					t.Fatal(err)
				}
			}
			it, err := c.Wait(testContext(t), item.ID)
			if err != nil || it.State != events.StateCompleted {
				t.Fatalf("%+v, %v", it, err)
			}
			if len(it.Params) > blobs.MaxRefBytes || len(it.Result) > blobs.MaxRefBytes {
				t.Errorf("the item itself has params of %d bytes and a result of %d", len(it.Params), len(it.Result))
			}
			sameDocuments(t, c, it, params, result)
			item.Params = largeDoc(5<<20 + 1)
			if _, err := c.Submit(testContext(t), item); events.CodeOf(err) != events.CodeIDConflict {
				t.Errorf("other params under the same id: %v", err)
			}
			sameDocuments(t, c, it, params, result)
		})
	}
}

func sameDocuments(t *testing.T, c *streamwright.Client, it streamwright.WorkItem, params, result []byte) {
	t.Helper()
	got, err := c.Params(testContext(t), it)
	if err != nil || !bytes.Equal(got, params) {
		t.Errorf("params: %d of %d bytes, %v", len(got), len(params), err)
	}
	if got, err = c.Result(testContext(t), it); err != nil || !bytes.Equal(got, result) {
		t.Errorf("result: %d of %d bytes, %v", len(got), len(result), err)
	}
	r, err := c.OpenResult(testContext(t), it)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, result) {
		t.Errorf("the result as a stream: %d of %d bytes, %v", len(got), len(result), err)
	}
	if _, err := streamwright.Result[string](it); err == nil || !strings.Contains(err.Error(), "Client.Result") {
		t.Errorf("a reference was read as the result: %v", err)
	}
}

func TestLargeDocumentsOfChildren(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	handleLarge(t, e, "child", process.Handler([]string{"cat"}))
	params := largeDoc(5 << 20)
	items := []streamwright.Item{{Type: "child", Params: params}, {Type: "child", Params: "small"}}
	subs, err := c.SubmitMany(testContext(t), items)
	if err != nil || subs[0].Error != nil || subs[1].Error != nil {
		t.Fatalf("%+v, %v", subs, err)
	}
	it, err := c.Wait(testContext(t), subs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	sameDocuments(t, c, it, params, params)
	if it, err = c.Wait(testContext(t), subs[1].ID); err != nil || string(it.Result) != `"small"` {
		t.Errorf("the small one: %s, %v", it.Result, err)
	}
}

// A plain publisher puts the object under a name of its own, and publishes the
// reference.
func TestPlainPublishByReference(t *testing.T) {
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	got := make(chan []byte, 1)
	handleLarge(t, e, "plain", func(_ context.Context, it *workers.RawItem) (any, error) {
		got <- it.Raw
		return nil, nil
	})
	const id = "01JD3V6YB2M4C9W8ZK5T7QXRNF"
	nc, js := clientConn(t, e)
	doc := largeDoc(1 << 20)
	ref := putByHand(t, js, id, "params", doc)
	msg := nats.NewMsg("work.submit.plain")
	msg.Header.Set(wire.HeaderID, id)
	msg.Data = ref.Document()
	if _, err := js.PublishMsg(testContext(t), msg); err != nil {
		t.Fatal(err)
	}
	select {
	case raw := <-got:
		if !bytes.Equal(raw, doc) {
			t.Errorf("the handler has %d of %d bytes", len(raw), len(doc))
		}
	case <-testContext(t).Done():
		t.Fatal("the item did not run")
	}
	// And the Go client's way of it.
	pub, err := c.Publish(testContext(t), streamwright.Item{Type: "plain", Params: json.RawMessage(doc)})
	if err != nil || !bytes.Equal(<-got, doc) {
		t.Errorf("published by the client: %+v, %v", pub, err)
	}
	_ = nc
}

// putByHand puts an object as docs/guides/BLOBS.md says for those who only publish.
func putByHand(t *testing.T, js jetstream.JetStream, id, kind string, doc []byte) blobs.Ref {
	t.Helper()
	sum := sha256.Sum256(doc)
	ref := blobs.Ref{Name: id + "." + kind, Size: int64(len(doc)), Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:])}
	if _, err := js.Publish(testContext(t), "$O.work_blobs.C."+id+"-"+kind, doc); err != nil {
		t.Fatal(err)
	}
	info := fmt.Sprintf(`{"name":%q,"bucket":"work_blobs","nuid":"%s-%s","size":%d,"chunks":1,"digest":%q}`, ref.Name, id, kind, ref.Size, ref.Digest)
	if _, err := js.Publish(testContext(t), "$O.work_blobs.M."+base64.URLEncoding.EncodeToString([]byte(ref.Name)), []byte(info)); err != nil {
		t.Fatal(err)
	}
	return ref
}

func clientConn(t *testing.T, e *Engine, opts ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := e.Connect(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func TestDocumentsThatAreNotToBeHad(t *testing.T) {
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	// The handler may not run for any of these.
	handleLarge(t, e, "lost", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	ref := blobs.Ref{Name: "01JD3V6YB2M4C9W8ZK5T7QXRNE.params", Size: 5, Digest: "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}
	dies := func(code events.Code) {
		t.Helper()
		sub, err := c.Submit(testContext(t), streamwright.Item{Type: "lost", Params: ref})
		if err != nil {
			t.Fatal(err)
		}
		it, err := c.Wait(testContext(t), sub.ID)
		if err != nil || it.State != events.StateDead || it.Attempt != 1 || it.Error.Code != string(code) {
			t.Errorf("%s after %d attempts: %+v, %v; want %s", it.State, it.Attempt, it.Error, err, code)
		}
		if _, err := c.Params(testContext(t), it); events.CodeOf(err) != code && code != events.CodeBadParams {
			t.Errorf("the client gets %v, want %s", err, code)
		}
	}
	dies(blobs.CodeGone)
	_, js := clientConn(t, e)
	putByHand(t, js, "01JD3V6YB2M4C9W8ZK5T7QXRNE", "params", []byte("12345"))
	dies(blobs.CodeDamaged)
	ref = putByHand(t, js, "01JD3V6YB2M4C9W8ZK5T7QXRNF", "params", []byte("{nojson"))
	dies(events.CodeBadParams)
}

// A store that is away for a while fails attempts, which are retried.
func TestObjectStoreAway(t *testing.T) {
	logins.Open(t, "it deletes a stream of the engine's")
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	if _, err := c.Types().Configure(testContext(t), "away", streamwright.Settings{MaxAttempts: new(100), Backoff: &streamwright.Backoff{Initial: 20 * time.Millisecond, Factor: 1, Max: 20 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	sub, err := c.Submit(testContext(t), streamwright.Item{Type: "away", Params: largeDoc(1 << 20)})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(e.nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(testContext(t), blobs.Stream(wire.Default))
	if err != nil {
		t.Fatal(err)
	}
	conf := s.CachedInfo().Config
	if err := js.DeleteStream(testContext(t), conf.Name); err != nil {
		t.Fatal(err)
	}
	handleLarge(t, e, "away", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	failed := func() (streamwright.WorkItem, bool) {
		it, err := c.Get(testContext(t), sub.ID)
		if err != nil {
			t.Fatal(err)
		}
		return it, it.Error != nil && it.Error.Code == blobs.FailUnavailable && it.Error.Retryable
	}
	await(t, "an attempt that fails for the object store", func() bool { _, ok := failed(); return ok })
	if _, err := js.CreateStream(testContext(t), conf); err != nil {
		t.Fatal(err)
	}
	it, err := c.Wait(testContext(t), sub.ID)
	if err != nil || it.State != events.StateDead || it.Error.Code != string(blobs.CodeGone) {
		t.Errorf("the bucket is back without the object: %s %+v, %v", it.State, it.Error, err)
	}
}

func TestClientsMayNotDeleteTheObjectStore(t *testing.T) {
	logins.Open(t, "it tries what a user may not, as TestRolesAreNoMoreOnNATS does")
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	denied := make(chan string, 16)
	_, js := clientConn(t, e, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err.Error() }))
	if _, err := c.Submit(testContext(t), streamwright.Item{Type: "kept", Params: largeDoc(1 << 20), ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE"}); err != nil {
		t.Fatal(err)
	}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	if err := js.DeleteObjectStore(short(), "work_blobs"); err == nil {
		t.Error("a client has deleted the bucket")
	}
	expect(t, denied, "$JS.API.STREAM.DELETE.OBJ_work_blobs")
	s, err := js.Stream(testContext(t), "OBJ_work_blobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(short()); err == nil {
		t.Error("a client has purged the bucket")
	}
	expect(t, denied, "$JS.API.STREAM.PURGE.OBJ_work_blobs")
	it, err := c.Get(testContext(t), "01JD3V6YB2M4C9W8ZK5T7QXRNE")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := c.Params(testContext(t), it); err != nil || len(doc) != 1<<20 {
		t.Errorf("%d bytes, %v", len(doc), err)
	}
}

// What the engine does when an item is pruned, fed by hand: the objects of that
// item go, and the others stay.
func TestObjectsLeaveWithTheirItem(t *testing.T) {
	e := mustStart(t, Options{Memory: true})
	c := mustClient(t, e)
	var items []streamwright.WorkItem
	for range 2 {
		sub, err := c.Submit(testContext(t), streamwright.Item{Type: "pruned", Params: largeDoc(1 << 20)})
		if err != nil {
			t.Fatal(err)
		}
		it, err := c.Get(testContext(t), sub.ID)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	var changes []core.ItemChange
	for _, it := range items {
		id, err := events.ParseID(it.ID)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, core.ItemChange{Old: &events.Item{ID: id}})
	}
	changes[1].New = changes[1].Old
	await(t, "the deletion", func() bool { // the janitor may not have heard of the object yet
		e.decider.janitor.Pruned(pruned(changes))
		_, err := c.Params(testContext(t), items[0])
		return errors.Is(err, blobs.ErrGone)
	})
	if _, err := c.Params(testContext(t), items[1]); err != nil {
		t.Error(err)
	}
	if _, err := e.decider.janitor.Sweep(testContext(t)); err != nil {
		t.Error(err)
	}
	if oldest, err := e.decider.undecided(testContext(t)); err != nil || !oldest.IsZero() {
		t.Errorf("undecided since %v, %v", oldest, err)
	}
}

func TestObjectStoreBound(t *testing.T) {
	o := quiet(t.TempDir())
	o.Config.Limits.BlobMaxBytes = 2 << 20
	e := mustStart(t, o)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	nc, _ := clientConn(t, e)
	// It goes on trying until its context ends, which the first refusal does here.
	c, err := streamwright.New(nc, streamwright.OnRetry(func(string, error) { cancel() }))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Submit(ctx, streamwright.Item{Type: "full", Params: largeDoc(4 << 20)}); events.CodeOf(err) != events.CodeTimeout || !strings.Contains(err.Error(), "blob_max_size") {
		t.Errorf("%v", err)
	}
	if e := mustStart(t, Options{Memory: true, Config: config.Config{}}); e.share("blob_max_size", 4<<30, 4<<30) > e.srv.storage(true)/sideShare {
		t.Errorf("%d of %d bytes are reserved", e.share("blob_max_size", 4<<30, 4<<30), e.srv.storage(true))
	}
}

// await looks again and again until done.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !done(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}
