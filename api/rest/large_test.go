package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/wire"
)

// large is a JSON document that no event holds.
func large(word string) string { return `"` + strings.Repeat(word, 1<<20/len(word)) + `"` }

// objects is how many messages the object store holds.
func (r *rig) objects() uint64 {
	r.t.Helper()
	nc, err := r.e.Connect()
	if err != nil {
		r.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := js.Stream(r.ctx, blobs.Stream(wire.Default))
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func (r *rig) params(id string) string {
	r.t.Helper()
	res := r.send("GET", "/api/v1/work/"+id+"/params", "")
	if res.status != http.StatusOK {
		r.t.Fatalf("the params of %s: %d %s", id, res.status, res.body)
	}
	return string(res.body)
}

// Large params of a submission go to the object store, and workers over NATS
// have them as they are.
func TestLargeParamsAreStored(t *testing.T) {
	r := start(t, "")
	var mu sync.Mutex
	var got []any
	r.work("echo", 1, func(_ context.Context, it *item) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, it.Params)
		return nil, nil
	})
	id := r.submit(`{"type":"echo","params":` + large("one") + `}`)
	many := want[struct{ Items []rest.PlacedItem }](r, http.StatusOK, "POST", "/api/v1/work", `{"items":[{"type":"echo","params":1},{"type":"echo","params":`+large("two")+`},{"type":"No Type","params":`+large("three")+`}]}`)
	if len(many.Items) != 3 || many.Items[1].Error != nil || many.Items[2].Error == nil || many.Items[2].Error.Code != "bad_type" {
		t.Fatalf("many: %+v", many)
	}
	for _, id := range []string{id, many.Items[0].ID, many.Items[1].ID} {
		if it := r.ended(id); it.State.String() != "completed" {
			t.Fatalf("item %s is %s: %+v", id, it.State, it.Error)
		}
	}
	if it := want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+id, ""); !isStored(it.Params) {
		t.Errorf("the item has the params %.80s", it.Params)
	}
	if r.params(id) != large("one") || r.params(many.Items[1].ID) != large("two") {
		t.Error("the params over HTTP are others")
	}
	mu.Lock()
	defer mu.Unlock()
	for i, want := range []string{large("one"), "1", large("two")} {
		if doc, err := json.Marshal(got[i]); err != nil || string(doc) != want {
			t.Errorf("the worker had %.40s, not %.40s", doc, want)
		}
	}
}

func isStored(doc json.RawMessage) bool {
	_, ok := streamwright.Stored(doc)
	return ok
}

// A submission that comes to nothing leaves nothing in the object store; one
// under an id of its own may be repeated, and is stored once.
func TestRefusedSubmissionsLeaveNoObjects(t *testing.T) {
	r := start(t, "[types.full]\nmax_queued = 1\n")
	r.submit(`{"type":"full","params":1}`)
	doc := large("x")
	r.refused(429, "queue_full", "", "POST", "/api/v1/work", `{"type":"full","params":`+doc+`}`)
	r.refused(400, "bad_type", "", "POST", "/api/v1/work", `{"type":"No Type","params":`+doc+`}`)
	r.refused(400, "bad_request", "prio", "POST", "/api/v1/work", `{"type":"t","prio":1,"params":`+doc+`}`)
	r.refused(400, "bad_params", "UTF-8", "POST", "/api/v1/work", `{"type":"t","params":"`+"\xff"+doc[1:]+`}`)
	r.refused(400, "bad_id", "", "POST", "/api/v1/work", `{"type":"t","id":"me","params":`+doc+`}`)
	if n := r.objects(); n != 0 {
		t.Errorf("refused submissions have left %d messages", n)
	}
	id := r.submit(`{"type":"t","idempotency_key":"k","params":` + doc + `}`)
	before := r.objects()
	if again := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/work", `{"type":"t","idempotency_key":"k","params":`+doc+`}`); again.ID != id || !again.Repeat {
		t.Errorf("the repeat: %+v", again)
	}
	if n := r.objects(); n != before {
		t.Errorf("a repeat by its key has left %d messages", n-before)
	}
	own := fmt.Sprintf(`{"type":"t","id":%q,"params":%s}`, nobody, doc)
	r.submit(own)
	before = r.objects()
	if again := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/work", own); again.ID != nobody || !again.Repeat {
		t.Errorf("the repeat: %+v", again)
	}
	if n := r.objects(); n != before || r.params(nobody) != doc {
		t.Errorf("a repeat by its id has left %d messages", n-before)
	}
	if r.params(id) != doc {
		t.Error("the params of the first are others")
	}
}

// A document that no request carries is put first.
func TestUploads(t *testing.T) {
	r := start(t, "")
	doc := `"` + strings.Repeat("y", 20<<20) + `"`
	up := want[struct {
		Item     string
		Document json.RawMessage
	}](r, http.StatusCreated, "POST", "/api/v1/blobs", doc)
	r.submit(fmt.Sprintf(`{"type":"t","id":%q,"params":%s}`, up.Item, up.Document))
	if r.params(up.Item) != doc {
		t.Error("the params are others")
	}
	before := r.objects()
	r.refused(400, "bad_request", "empty", "POST", "/api/v1/blobs", "")
	r.refused(400, "bad_request", "kind", "POST", "/api/v1/blobs?kind=x", "1")
	r.refused(400, "bad_request", "spelling", "POST", "/api/v1/blobs?itme=x", "1")
	r.refused(400, "bad_id", "", "POST", "/api/v1/blobs?item=x", "1")
	r.refused(400, "bad_id", "result", "POST", "/api/v1/blobs?kind=result", "1")
	r.refused(413, "too_large", "", "POST", "/api/v1/blobs", strings.Repeat(" ", int(rest.MaxUploadBytes)+1))
	res, err := http.Post(r.base+"/api/v1/blobs", "application/json", io.MultiReader(strings.NewReader(strings.Repeat(" ", int(rest.MaxUploadBytes)+1))))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("a document past the bound whose length is not said: %d", res.StatusCode)
	}
	r.eventually("what was refused has left nothing", func() bool { return r.objects() == before })
}
