package bridge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// large is a JSON document that no event holds.
func large(word string) string { return `"` + strings.Repeat(word, 1<<20/len(word)) + `"` }

// document reads an item's params or result over HTTP.
func (e *engine) document(t testing.TB, id, name string) string {
	t.Helper()
	resp, err := e.http.Get("http://" + e.HTTP() + "/api/v1/work/" + id + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s of item %s: %d %v", name, id, resp.StatusCode, err)
	}
	return string(data)
}

type upload struct {
	Item     string
	Document json.RawMessage
}

// upload puts a document into the object store over HTTP.
func (e *engine) upload(t testing.TB, query, doc string) (up upload) {
	t.Helper()
	status, data := e.raw(t, "/api/v1/blobs"+query, doc)
	if err := json.Unmarshal(data, &up); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s %v", status, data, err)
	}
	return up
}

// A result that is too large for an event is stored by the engine, beside small
// ones in the same request; a repeat of the report changes nothing.
func TestLargeResults(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 2})
	e.submit(t, "step", `1`)
	e.submit(t, "step", `2`)
	big, small := w.one(), w.one()
	w.ok(complete(big, " "+large("result")+" "), complete(small, `2`))
	before := e.kinds(t, big.ID)
	w.ok(complete(big, large("result")))
	if after := e.kinds(t, big.ID); len(after) != len(before) {
		t.Errorf("the repeat has made events: %v after %v", after, before)
	}
	it := e.item(t, big.ID)
	if _, stored := streamwright.Stored(it.Result); !stored || it.State != events.StateCompleted {
		t.Fatalf("the item is %s with the result %.80s", it.State, it.Result)
	}
	if e.document(t, big.ID, "result") != large("result") {
		t.Error("the result over HTTP is another")
	}
	if doc, err := e.client.Result(testContext(t), it); err != nil || string(doc) != large("result") {
		t.Errorf("the result by the Go client: %d bytes, %v", len(doc), err)
	}
	if it := e.item(t, small.ID); string(it.Result) != `2` {
		t.Errorf("the other item: %+v", it)
	}
}

// A stale report with a large result overwrites nothing, whatever it says.
func TestAStaleLargeResultOverwritesNothing(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	e.submit(t, "step", `1`)
	it := w.one()
	w.ok(complete(it, large("right")))
	stale := it
	stale.Token = "zz"
	if got := w.report(complete(stale, large("wrong")), complete(stale, large("right"))); got[0].OK || got[1].OK {
		t.Errorf("stale reports: %+v", got)
	}
	if e.document(t, it.ID, "result") != large("right") {
		t.Error("the result is another")
	}
}

// So are the params of spawned children.
func TestLargeParamsOfChildren(t *testing.T) {
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	e.submit(t, "step", `1`)
	it := w.one()
	spawn := wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportSpawn}
	for _, word := range []string{"first", "second", "third"} { // more than a request over NATS carries
		spawn.Children = append(spawn.Children, wire.Submit{Type: "part", Params: json.RawMessage(large(word))})
	}
	w.ok(spawn)
	before := e.kinds(t, it.ID)
	w.ok(spawn)
	if after := e.kinds(t, it.ID); len(after) != len(before) {
		t.Errorf("the repeat has made events: %v after %v", after, before)
	}
	parts := e.worker(t, wire.WorkerRegistration{Types: []string{"part"}, Slots: 3})
	seen := map[string]bool{}
	for range spawn.Children {
		child := parts.one()
		if _, stored := streamwright.Stored(child.Params); !stored {
			t.Fatalf("the child has the params %.80s", child.Params)
		}
		seen[e.document(t, child.ID, "params")] = true
		parts.ok(complete(child, `1`))
	}
	for _, word := range []string{"first", "second", "third"} {
		if !seen[large(word)] {
			t.Errorf("no child has the params of the %s", word)
		}
	}
	need.Eventually(t, "the parent has completed", func() bool { return e.item(t, it.ID).State == events.StateCompleted })
}

// A result beyond a request's bound is put first, and reported by its reference.
func TestUploadedResult(t *testing.T) {
	slow(t)
	t.Parallel()
	e := startEngine(t, embedded.Options{})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	e.submit(t, "step", `1`)
	it := w.one()
	w.ok(wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportStart}) // the upload may take longer than an item waits for it
	doc := `"` + strings.Repeat("x", 12<<20) + `"`
	up := e.upload(t, "?kind=result&item="+it.ID, doc)
	if up.Item != it.ID {
		t.Errorf("uploaded for item %s", up.Item)
	}
	w.ok(complete(it, string(up.Document)))
	if e.document(t, it.ID, "result") != doc {
		t.Error("the result is another")
	}
	if status, data := e.raw(t, w.path("report"), fmt.Sprintf(`{"session":%q,"reports":[{"id":%q,"token":%q,"event":"complete","result":%s}]}`, w.session, it.ID, it.Token, doc)); status != 413 || !strings.Contains(string(data), "too_large") {
		t.Errorf("the same in a report: %d %s", status, data)
	}
}
