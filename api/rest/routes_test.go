package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

const nobody = "01JD3V6YB2M4C9W8ZK5T7QXRNE"

func echo(_ context.Context, it *workers.Item[any]) (any, error) { return it.Params, nil }

func TestSubmitSeeAndWait(t *testing.T) {
	r := start(t, "")
	sub := want[struct {
		wire.Submitted
		Ahead           *int   `json:"ahead"`
		EstimatedWaitMS *int64 `json:"estimated_wait_ms"`
	}](r, http.StatusCreated, "POST", "/api/v1/work", `{"type":"echo","params":{"n":1},"dedup_key":"k","labels":{"a":"b"}}`)
	if sub.State != events.StateQueued || sub.ID == "" || sub.Position == "" || sub.Ahead == nil || *sub.Ahead != 0 || sub.EstimatedWaitMS != nil {
		t.Errorf("submitted: %+v", sub)
	}
	if again := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/work", `{"type":"echo","params":{"n":2},"dedup_key":"k"}`); again.MergedInto != sub.ID {
		t.Errorf("a merge answers %+v", again)
	}
	named := `{"type":"other","id":"` + nobody + `"}`
	want[wire.Submitted](r, http.StatusCreated, "POST", "/api/v1/work", named)
	if repeat := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/work", named); repeat.ID != nobody || !repeat.Repeat {
		t.Errorf("a repeat answers %+v", repeat)
	}
	r.refused(409, "id_conflict", nobody, "POST", "/api/v1/work", `{"type":"third","id":"`+nobody+`"}`)
	if h := want[wire.Holder](r, http.StatusOK, "GET", "/api/v1/types/echo/holder?key=k", ""); h.ID != sub.ID || h.State != events.StateQueued {
		t.Errorf("the holder of k is %+v", h)
	}
	behind := want[struct{ Ahead *int }](r, http.StatusCreated, "POST", "/api/v1/work", `{"type":"echo"}`)
	if behind.Ahead == nil || *behind.Ahead != 1 {
		t.Errorf("behind one item, ahead is %v", behind.Ahead)
	}
	page := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?type=echo&state=queued&label=a%3Db&min_position="+string(sub.Position), "")
	if len(page.Items) != 1 || page.Items[0].ID != sub.ID {
		t.Errorf("listed: %+v", page)
	}
	first := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?limit=1", "")
	if second := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?limit=1&cursor="+first.NextCursor, ""); len(second.Items) != 1 || second.Items[0].ID == first.Items[0].ID {
		t.Errorf("the second page is %+v behind %+v", second, first)
	}
	if why := want[wire.WhyReply](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"/why", ""); len(why.Reasons) == 0 || why.Reasons[0].Code != events.WhyNoWorker {
		t.Errorf("why: %+v", why)
	}
	still := want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"/wait?timeout=0.01", "")
	if still.State != events.StateQueued {
		t.Errorf("a wait that is over early gives %s", still.State)
	}
	many := want[wire.Waited](r, http.StatusOK, "POST", "/api/v1/work/wait", `{"ids":["`+sub.ID+`"],"any":true,"timeout_ms":10}`)
	if len(many.Ended) != 0 || len(many.Pending) != 1 || many.Pending[0].ID != sub.ID {
		t.Errorf("a wait for many that is over early gives %+v", many)
	}
	r.work("echo", 2, echo)
	if it := r.ended(sub.ID); it.State != events.StateCompleted || string(it.Result) != `{"n":1}` {
		t.Errorf("it ended as %+v", it)
	}
	if past := want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"?at="+string(sub.Position), ""); past.State != events.StateQueued || past.AsOf == nil {
		t.Errorf("as it was: %+v", past)
	}
	if h := want[wire.HistoryReply](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"/history", ""); len(h.Events) < 4 {
		t.Errorf("its history has %d events", len(h.Events))
	}
	if tree := want[wire.TreeReply](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"/tree?depth=2&limit=5", ""); tree.Root.ID != sub.ID {
		t.Errorf("its tree: %+v", tree)
	}
}

func TestSubmitMany(t *testing.T) {
	r := start(t, "")
	type reply struct {
		Items []struct {
			wire.Submitted
			Ahead *int
		}
	}
	got := want[reply](r, http.StatusOK, "POST", "/api/v1/work", `{"items":[{"type":"a"},{"type":"Not A Type"},{"type":"a","nonsense":1},{"type":"a"}]}`)
	if len(got.Items) != 4 || got.Items[0].ID == "" || got.Items[1].Error == nil || got.Items[1].Error.Code != events.CodeBadType ||
		got.Items[2].Error == nil || got.Items[2].Error.Code != events.CodeBadRequest || got.Items[3].ID == "" {
		t.Fatalf("many: %+v", got)
	}
	if a, b := got.Items[0].Ahead, got.Items[3].Ahead; a == nil || b == nil || *a != 0 || *b != 1 {
		t.Errorf("the two are behind %v and %v items", a, b)
	}
	many := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"type":"b"},`, events.MaxSubmitBatch), ",") + `]}`
	full := want[reply](r, http.StatusOK, "POST", "/api/v1/work", many)
	placed := 0
	for _, it := range full.Items {
		if it.Ahead != nil {
			placed++
		}
	}
	if len(full.Items) != events.MaxSubmitBatch || placed == 0 || placed > wire.MaxPlaces {
		t.Errorf("of %d items %d have their place", len(full.Items), placed)
	}
	r.refused(413, "too_large", "10001", "POST", "/api/v1/work", strings.Replace(many, "[", `[{"type":"b"},`, 1))
	r.refused(400, "bad_request", "items must be a list", "POST", "/api/v1/work", `{"items":[ ]}`)
	r.refused(400, "bad_request", "items must be a list", "POST", "/api/v1/work", `{"items":{}}`)
	r.refused(400, "bad_request", `"type" beside items`, "POST", "/api/v1/work", `{"items":[{}],"type":"a"}`)
	r.refused(400, "bad_request", "array", "POST", "/api/v1/work", `[{"type":"a"}]`)
}

// An estimate comes of the runs of the type and the slots of its workers.
func TestSubmitEstimatesTheWait(t *testing.T) {
	r := start(t, "")
	started, release := make(chan struct{}), make(chan struct{})
	r.work("slow", 2, func(ctx context.Context, it *workers.Item[any]) (any, error) {
		if it.Params == nil {
			<-started // its start is recorded
			time.Sleep(100 * time.Millisecond)
			return nil, nil
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	})
	first := r.submit(`{"type":"slow"}`)
	r.eventually("it runs", func() bool {
		return want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+first, "").State == events.StateRunning
	})
	close(started)
	r.ended(first)
	t.Cleanup(func() { close(release) })
	held := []string{r.submit(`{"type":"slow","params":1}`), r.submit(`{"type":"slow","params":1}`)}
	for _, id := range held {
		r.eventually("the slots are taken", func() bool {
			return want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+id, "").State == events.StateRunning
		})
	}
	// Those that are not sent have a place in the queue. Two slots, 100 ms each, of which the
	// first few may count as the start.
	var last struct {
		Ahead           *int   `json:"ahead"`
		EstimatedWaitMS *int64 `json:"estimated_wait_ms"`
	}
	for range 20 {
		last.Ahead, last.EstimatedWaitMS = nil, nil
		last = want[struct {
			Ahead           *int   `json:"ahead"`
			EstimatedWaitMS *int64 `json:"estimated_wait_ms"`
		}](r, http.StatusCreated, "POST", "/api/v1/work", `{"type":"slow","params":1}`)
	}
	if last.Ahead == nil || *last.Ahead < 1 || last.EstimatedWaitMS == nil || *last.EstimatedWaitMS < 90*int64(*last.Ahead-1)/2 {
		t.Errorf("the last of 20 behind two busy slots: ahead %v, estimated wait %v", show(last.Ahead), show(last.EstimatedWaitMS))
	}
	due := want[struct {
		Ahead           *int   `json:"ahead"`
		EstimatedWaitMS *int64 `json:"estimated_wait_ms"`
	}](r, http.StatusCreated, "POST", "/api/v1/work", `{"type":"slow","params":1,"delay_ms":3600000}`)
	if due.Ahead != nil || due.EstimatedWaitMS == nil || *due.EstimatedWaitMS < 3_500_000 {
		t.Errorf("one that is due in an hour: ahead %v, estimated wait %v", show(due.Ahead), show(due.EstimatedWaitMS))
	}
}

// What submissions say of their runs counts before what is known of the type.
func TestEstimatedDurationsMakeTheWait(t *testing.T) {
	r := start(t, "")
	started, release := make(chan struct{}, 1), make(chan struct{})
	r.work("report", 1, func(ctx context.Context, _ *workers.Item[any]) (any, error) {
		select {
		case started <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, nil
	})
	t.Cleanup(func() { close(release) })
	r.submit(`{"type":"report"}`)
	<-started
	type placed struct {
		ID              string `json:"id"`
		Ahead           int    `json:"ahead"`
		EstimatedWaitMS *int64 `json:"estimated_wait_ms"`
	}
	submit := func(body string) placed {
		return want[placed](r, http.StatusCreated, "POST", "/api/v1/work", body)
	}
	var last placed
	for range 20 { // a few are sent ahead
		last = submit(`{"type":"report","estimated_duration_ms":60000}`)
	}
	if last.Ahead < 2 || last.EstimatedWaitMS == nil || *last.EstimatedWaitMS < 60_000*int64(last.Ahead) || *last.EstimatedWaitMS > 60_000*int64(last.Ahead+2) {
		t.Errorf("behind %d items of a minute each, with one slot: %v ms", last.Ahead, show(last.EstimatedWaitMS))
	}
	if it := want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+last.ID, ""); it.EstimatedDuration != events.Millis(60_000) {
		t.Errorf("the item says %d", it.EstimatedDuration.Milliseconds())
	}
	// One of an hour holds up those behind it, not itself.
	urgent := submit(`{"type":"report","priority":9,"estimated_duration_ms":3600000}`)
	behind := submit(`{"type":"report","estimated_duration_ms":1}`)
	if urgent.EstimatedWaitMS == nil || behind.EstimatedWaitMS == nil || *behind.EstimatedWaitMS < *last.EstimatedWaitMS+3_000_000 {
		t.Errorf("behind one of an hour: %v ms, before %v", show(behind.EstimatedWaitMS), show(last.EstimatedWaitMS))
	}
	r.refused(400, "bad_time", "estimated_duration_ms", "POST", "/api/v1/work", `{"type":"report","estimated_duration_ms":-5}`)
}

func show[T any](p *T) string {
	if p == nil {
		return "none"
	}
	return fmt.Sprint(*p)
}

func TestCancelRescheduleReplay(t *testing.T) {
	r := start(t, "")
	began, stopped := make(chan struct{}), make(chan struct{})
	holder := r.work("hold", 1, func(ctx context.Context, _ *workers.Item[any]) (any, error) {
		close(began)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})
	waits := r.submit(`{"type":"waits"}`)
	id := r.submit(`{"type":"hold"}`)
	r.eventually("it runs", func() bool {
		return want[wire.Item](r, http.StatusOK, "GET", "/api/v1/work/"+id, "").State == events.StateRunning
	})
	<-began // the engine counts it as running before its worker has heard so
	held := "/api/v1/work?worker=" + string(holder.ID())
	if page := want[wire.Listed](r, http.StatusOK, "GET", held, ""); len(page.Items) != 1 || page.Items[0].ID != id {
		t.Errorf("the worker holds %+v, not %s, and not %s", page, id, waits)
	}
	r.refused(400, "bad_request", "worker", "GET", "/api/v1/work?worker=no%20id", "")
	r.refused(409, "wrong_state", "", "PATCH", "/api/v1/work/"+id, `{"priority":1}`)
	got := want[wire.Cancelled](r, http.StatusOK, "DELETE", "/api/v1/work/"+id+"?reason=no+more", "")
	if !got.WasRunning || !got.WorkerTold || got.State != events.StateCancelled {
		t.Errorf("cancelled: %+v", got)
	}
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the worker was said to be told, and runs on")
	}
	if page := want[wire.Listed](r, http.StatusOK, "GET", held+"&min_position="+string(got.Position), ""); len(page.Items) != 0 {
		t.Errorf("the worker still holds %+v", page)
	}
	if again := want[wire.Cancelled](r, http.StatusOK, "DELETE", "/api/v1/work/"+id, ""); again.WorkerTold || again.State != events.StateCancelled {
		t.Errorf("cancelled again: %+v", again)
	}
	idle := r.submit(`{"type":"idle","delay_ms":3600000}`)
	if moved := want[wire.Rescheduled](r, http.StatusOK, "PATCH", "/api/v1/work/"+idle, `{"priority":7,"now":true}`); moved.ID != idle || moved.State != events.StateQueued {
		t.Errorf("rescheduled: %+v", moved)
	}
	if got := want[wire.Cancelled](r, http.StatusOK, "DELETE", "/api/v1/work/"+idle, ""); got.WasRunning || got.WorkerTold {
		t.Errorf("cancelled while queued: %+v", got)
	}
	for _, path := range []string{"/api/v1/work/", "/api/v1/dead/"} {
		if again := want[wire.ReplayReply](r, http.StatusOK, "POST", path+idle+"/replay", `{"params":{"x":1}}`); again.State != events.StateQueued {
			t.Errorf("replayed: %+v", again)
		}
		r.refused(409, "wrong_state", "", "POST", path+idle+"/replay", "")
		want[wire.Cancelled](r, http.StatusOK, "DELETE", "/api/v1/work/"+idle, "")
	}
	r.refused(400, "bad_request", `"id", which the path says`, "PATCH", "/api/v1/work/"+idle, `{"id":"`+idle+`"}`)
	r.refused(400, "bad_request", "nonsense", "PATCH", "/api/v1/work/"+idle, `{"nonsense":1}`)
	r.refused(400, "bad_request", "write an object", "PATCH", "/api/v1/work/"+idle, `[1]`)
	r.refused(400, "bad_request", "JSON", "PATCH", "/api/v1/work/"+idle, `{"a`)
}

func TestUnknownItemsAndBadRequests(t *testing.T) {
	r := start(t, "")
	for _, path := range []string{"", "/history", "/logs", "/logs?follow=true", "/why", "/tree", "/wait?timeout=1"} {
		r.refused(404, "not_found", nobody, "GET", "/api/v1/work/"+nobody+path, "")
		r.refused(400, "bad_id", "ULID", "GET", "/api/v1/work/nonsense"+path, "")
	}
	r.refused(404, "not_found", "", "DELETE", "/api/v1/work/"+nobody, "")
	r.refused(404, "not_found", "", "POST", "/api/v1/work/"+nobody+"/replay", "")
	r.refused(404, "not_found", "holds the dedup key", "GET", "/api/v1/types/echo/holder?key=nope", "")
	r.refused(400, "bad_request", "key", "GET", "/api/v1/types/echo/holder", "")
	r.refused(400, "bad_type", "", "GET", "/api/v1/types/Echo/holder?key=k", "")
	r.refused(400, "bad_request", `the parameter "stat"`, "GET", "/api/v1/work?stat=queued", "")
	r.refused(400, "bad_request", "created_after", "GET", "/api/v1/work?created_after=yesterday", "")
	r.refused(400, "bad_request", "limit", "GET", "/api/v1/work?limit=many", "")
	r.refused(400, "bad_request", "limit", "GET", "/api/v1/work?limit=100000", "")
	r.refused(400, "bad_request", "history", "GET", "/api/v1/work/"+nobody+"?history=perhaps", "")
	r.refused(400, "bad_time", "timeout", "GET", "/api/v1/work/"+nobody+"/wait?timeout=301", "")
	r.refused(400, "bad_time", "timeout", "GET", "/api/v1/work/"+nobody+"/wait?timeout=soon", "")
	r.refused(400, "bad_time", "at", "GET", "/api/v1/work/"+nobody+"?at=then", "")
	r.refused(400, "bad_request", "nonsense", "POST", "/api/v1/work", `{"type":"a","nonsense":1}`)
	r.refused(400, "bad_type", "", "POST", "/api/v1/work", `{"type":"No Type"}`)
	r.refused(400, "bad_request", "body is required", "POST", "/api/v1/work", "")
	r.refused(400, "bad_request", "", "POST", "/api/v1/work", "nonsense")
	r.refused(413, "too_large", "8388608", "POST", "/api/v1/work", `{"type":"a","params":"`+strings.Repeat("x", 9<<20)+`"}`)
	r.refused(404, "not_found", "/api/v1/nonsense", "GET", "/api/v1/nonsense", "")
	r.refused(404, "not_found", "/api/nonsense", "POST", "/api/nonsense", "{}")
	res := r.refused(405, "bad_request", "GET, POST", "DELETE", "/api/v1/work", "")
	if allow := res.header.Get("Allow"); allow != "GET, POST" {
		t.Errorf("Allow is %q", allow)
	}
	r.refused(403, "forbidden", "another origin", "POST", "/api/v1/work", `{"type":"a"}`, "Sec-Fetch-Site", "cross-site")
	for _, path := range []string{"/api/v1/info", "/api/v1/work", "/api/v1/events", "/api/v1/work/" + nobody + "/wait", "/metrics", "/api/nonsense"} {
		r.refused(403, "forbidden", "another origin", "GET", path, "", "Sec-Fetch-Site", "cross-site")
		r.refused(403, "forbidden", "another origin", "GET", path, "", "Sec-Fetch-Site", "same-site") // another port of this machine
		r.refused(403, "forbidden", "another origin", "GET", path, "", "Origin", "http://evil.example")
	}
	for _, site := range []string{"same-origin", "none"} {
		if res := r.send("GET", "/api/v1/info", "", "Sec-Fetch-Site", site); res.status != http.StatusOK {
			t.Errorf("info for a page that is %s: %d", site, res.status)
		}
	}
	for _, path := range []string{"/", "/docs/", "/docs/api/", "/openapi.json", "/healthz"} { // may be linked to
		if res := r.send("GET", path, "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); res.status != http.StatusOK {
			t.Errorf("%s from a link: %d", path, res.status)
		}
	}
	if res := r.send("GET", "/api/v1/info", "", "Accept", "text/html"); res.status != http.StatusOK || res.header.Get("Content-Type") != "application/json" || res.header.Get("Cache-Control") != "no-store" {
		t.Errorf("info for a browser: %d %v", res.status, res.header)
	}
}

// What a route would ignore it refuses: a body, a parameter, one that is given
// twice.
func TestRoutesIgnoreNothing(t *testing.T) {
	r := start(t, "")
	id := r.submit(`{"type":"a","params":{"n": 1.50, "t": "<b>"}}`)
	r.send("PUT", "/api/v1/schedules/n", `{"type":"a","every_ms":3600000}`)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/api/v1/schedules/n/pause", `{"prams":1}`}, {"POST", "/api/v1/schedules/n/pause", `{`},
		{"POST", "/api/v1/schedules/n/resume", `{"prams":1}`}, {"DELETE", "/api/v1/schedules/n", `[]`},
		{"POST", "/api/v1/types/a/circuit/reset", `{"prams":1}`},
	} {
		r.refused(400, "bad_request", "body", c.method, c.path, c.body)
	}
	for _, path := range []string{
		"/api/v1/live?type=a", "/api/v1/trends?minuts=5", "/api/v1/work/" + id + "/params?x=1", "/api/v1/work/" + id + "/result?x=1", "/readyz?x", "/api/v1/schedules?x=1",
	} {
		r.refused(400, "bad_request", "spelling", "GET", path, "")
	}
	for _, path := range []string{"/api/v1/work?limit=1&limit=2", "/api/v1/trends?minutes=5&minutes=6", "/api/v1/work/" + id + "?at=1&at=2"} {
		r.refused(400, "bad_request", "give it once", "GET", path, "")
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		res := r.refused(405, "bad_request", "takes GET", "POST", path, "")
		if allow := res.header.Get("Allow"); allow != "GET" {
			t.Errorf("%s: Allow is %q", path, allow)
		}
	}
	r.refused(404, "not_found", "nothing at", "GET", "/nonsense", "")
	r.refused(404, "not_found", "no worker", "POST", "/api/v1/workers/nobody/circuit/reset", "")
	r.refused(404, "not_found", "no type", "POST", "/api/v1/types/nosuch/resume", "")
	if res := r.send("GET", "/api/v1/work/"+id+"/params", ""); string(res.body) != `{"n": 1.50, "t": "<b>"}` {
		t.Errorf("the params came back as %s", res.body)
	}
	if res := r.send("GET", "/api/v1/trends?types=a&types=b&minutes=5", ""); res.status != http.StatusOK {
		t.Errorf("trends: %d %s", res.status, res.body)
	}
	if res := r.send("POST", "/api/v1/schedules/n/pause", "{}"); res.status != http.StatusOK {
		t.Errorf("pause with an empty object: %d %s", res.status, res.body)
	}
}

// A schedule's items are listed by its name, and a timing is shown before it is set.
func TestRunsAndTicks(t *testing.T) {
	r := start(t, "")
	r.send("PUT", "/api/v1/schedules/n", `{"type":"a","every_ms":3600000}`)
	fired := want[wire.Submitted](r, http.StatusOK, "POST", "/api/v1/schedules/n/fire", `{}`)
	r.submit(`{"type":"a"}`)
	runs := want[wire.Listed](r, http.StatusOK, "GET", "/api/v1/work?schedule=n&min_position="+string(fired.Position), "")
	if len(runs.Items) != 1 || runs.Items[0].ID != fired.ID {
		t.Errorf("the runs are %+v, want %s", runs.Items, fired.ID)
	}
	ticks := want[wire.TicksReply](r, http.StatusOK, "GET", "/api/v1/ticks?cron=0+3+*+*+*&zone=Europe/Berlin&count=2", "")
	if len(ticks.Ticks) != 2 || ticks.Ticks[0].Hour() != 3 || ticks.Ticks[0].UTC().Hour() == 3 {
		t.Errorf("the ticks are %v", ticks.Ticks)
	}
	if every := want[wire.TicksReply](r, http.StatusOK, "GET", "/api/v1/ticks?every_ms=60000&anchor=2026-01-01T00:00:00Z", ""); len(every.Ticks) != wire.DefaultTicks || every.Ticks[0].Second() != 0 {
		t.Errorf("the ticks are %v", every.Ticks)
	}
	r.refused(400, "bad_request", "the field hour", "GET", "/api/v1/ticks?cron=0+99+*+*+*", "")
	r.refused(400, "bad_request", "every_ms", "GET", "/api/v1/ticks?every_ms=soon", "")
	r.refused(400, "bad_request", "spelling", "GET", "/api/v1/ticks?crom=@daily", "")
}

func TestQueueFullSaysWhenToComeAgain(t *testing.T) {
	r := start(t, "[types.few]\nmax_queued = 1\n")
	r.submit(`{"type":"few"}`)
	res := r.refused(429, "queue_full", "", "POST", "/api/v1/work", `{"type":"few"}`)
	if after := res.header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After is %q", after)
	}
}

func TestEngineTypesAndWorkers(t *testing.T) {
	r := start(t, "[types.fixed]\ncapacity = 3\n")
	r.work("a", 2, echo)
	r.ended(r.submit(`{"type":"a"}`))
	if s := want[wire.StatsReply](r, http.StatusOK, "GET", "/api/v1/stats", ""); s.Workers != 1 || len(s.Types) == 0 {
		t.Errorf("stats: %+v", s)
	}
	info := want[wire.InfoReply](r, http.StatusOK, "GET", "/api/v1/info", "")
	if info.HTTP != r.e.HTTP() || info.Position == "" {
		t.Errorf("info: %+v", info)
	}
	if st := want[wire.State](r, http.StatusOK, "GET", "/api/v1/state?at="+string(info.Position), ""); st.Position != info.Position || len(st.Types) == 0 {
		t.Errorf("state: %+v", st)
	}
	r.refused(400, "bad_request", "at is missing", "GET", "/api/v1/state", "")
	if all := want[wire.TypesReply](r, http.StatusOK, "GET", "/api/v1/types", ""); len(all.Types) != 2 {
		t.Errorf("types: %+v", all)
	}
	one := want[wire.TypeReply](r, http.StatusOK, "PATCH", "/api/v1/types/a", `{"capacity":7,"backoff":{"max_ms":9000}}`)
	if one.Settings.Capacity != 7 || one.Settings.Backoff.Max != events.Millis(9000) || one.Settings.Backoff.Initial.IsZero() {
		t.Errorf("patched: %+v", one)
	}
	if got := want[wire.Changed](r, http.StatusOK, "POST", "/api/v1/types/a/pause", `{"reason":"x"}`); !got.Changed {
		t.Errorf("pause: %+v", got)
	}
	if got := want[wire.TypeReply](r, http.StatusOK, "GET", "/api/v1/types/a", ""); got.Paused == nil {
		t.Errorf("a paused type: %+v", got)
	}
	if got := want[wire.Changed](r, http.StatusOK, "POST", "/api/v1/types/a/resume", ""); !got.Changed {
		t.Errorf("resume: %+v", got)
	}
	want[wire.Changed](r, http.StatusOK, "POST", "/api/v1/types/a/circuit/reset", "")
	r.refused(404, "not_found", "none", "GET", "/api/v1/types/none", "")
	r.refused(409, "set_in_file", "engine.toml", "PATCH", "/api/v1/types/fixed", `{"capacity":9}`)
	r.refused(400, "bad_request", "nothing to change", "PATCH", "/api/v1/types/a", `{}`)
	r.refused(400, "bad_request", "colour", "PATCH", "/api/v1/types/a", `{"colour":1}`)
	r.refused(400, "bad_request", "paused", "PATCH", "/api/v1/types/a", `{"paused":true}`)

	want[wire.TypeReply](r, http.StatusOK, "PATCH", "/api/v1/types/misspelt", `{"capacity":7}`)
	r.refused(409, "wrong_state", "serves it", "DELETE", "/api/v1/types/a", "")
	r.refused(409, "set_in_file", "engine.toml", "DELETE", "/api/v1/types/fixed", "")
	if got := want[wire.Changed](r, http.StatusOK, "DELETE", "/api/v1/types/misspelt", ""); !got.Changed {
		t.Errorf("removed: %+v", got)
	}
	r.refused(404, "not_found", "misspelt", "GET", "/api/v1/types/misspelt", "")
	r.refused(404, "not_found", "misspelt", "DELETE", "/api/v1/types/misspelt", "")

	ws := want[wire.WorkersReply](r, http.StatusOK, "GET", "/api/v1/workers", "")
	if len(ws.Workers) != 1 {
		t.Fatalf("workers: %+v", ws)
	}
	id := ws.Workers[0].Worker
	want[wire.Changed](r, http.StatusOK, "POST", "/api/v1/workers/"+id+"/circuit/reset", "")
	want[wire.OK](r, http.StatusOK, "POST", "/api/v1/workers/"+id+"/drain", "")
	r.eventually("it drains", func() bool {
		ws := want[wire.WorkersReply](r, http.StatusOK, "GET", "/api/v1/workers", "").Workers
		return len(ws) == 0 || ws[0].Status != wire.WorkerActive
	})
	r.refused(404, "not_found", "", "POST", "/api/v1/workers/nobody/drain", "")
}

// A request's trace is that of the items in it, but for those that name another;
// params go on as they were written.
func TestSubmissionsGoOnInTheTraceOfTheirRequest(t *testing.T) {
	const mine, other = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := start(t, "")
	for name, c := range map[string]struct {
		body, header string
		want         []string
	}{
		"one":        {`{"type":"t","params":{"a": "<b>"}}`, mine, []string{mine}},
		"many":       {`{"items":[{"type":"t"},{"type":"t","traceparent":"` + other + `"}]}`, mine, []string{mine, other}},
		"unreadable": {`{"type":"t"}`, "what", []string{""}},
		"none":       {`{"type":"t"}`, "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			res := r.send("POST", "/api/v1/work", c.body, "traceparent", c.header)
			var reply struct {
				wire.Submitted
				Items []wire.Submitted
			}
			if err := json.Unmarshal(res.body, &reply); err != nil {
				t.Fatal(err, string(res.body))
			}
			if reply.ID != "" {
				reply.Items = append(reply.Items, reply.Submitted)
			}
			for i, sub := range reply.Items {
				history := want[wire.HistoryReply](r, http.StatusOK, "GET", "/api/v1/work/"+sub.ID+"/history", "")
				var created struct {
					Traceparent string
					Params      json.RawMessage
				}
				if err := json.Unmarshal(history.Events[0].Data, &created); err != nil || created.Traceparent != c.want[i] {
					t.Errorf("item %d has the trace %q, %v", i, created.Traceparent, err)
				}
			}
		})
	}
}
