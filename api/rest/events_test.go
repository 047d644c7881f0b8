package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// sse is one event of a stream.
type sse struct {
	id   uint64
	name string
	data string
}

// listener reads a stream of server-sent events.
type listener struct {
	t   *testing.T
	res *http.Response
	in  *bufio.Scanner
	cut context.CancelFunc
}

func (r *rig) listen(path, lastID string) *listener {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	req, err := http.NewRequestWithContext(ctx, "GET", r.base+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	l := &listener{t: r.t, res: res, in: bufio.NewScanner(res.Body), cut: cancel}
	l.in.Buffer(nil, 1<<20)
	r.t.Cleanup(l.close)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		r.t.Fatalf("GET %s: status %d, %s: %s", path, res.StatusCode, res.Header.Get("Content-Type"), body)
	}
	return l
}

func (l *listener) close() {
	l.cut()
	_ = l.res.Body.Close()
}

// next is the next event; false at the end of the stream.
func (l *listener) next() (e sse, ok bool) {
	for l.in.Scan() {
		line := l.in.Text()
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" && e.name != "":
			return e, true
		case field == "id":
			e.id, _ = strconv.ParseUint(value, 10, 64)
		case field == "event":
			e.name = value
		case field == "data":
			e.data = value
		}
	}
	return sse{}, false
}

func (l *listener) must() sse {
	l.t.Helper()
	e, ok := l.next()
	if !ok {
		l.t.Fatalf("the stream has ended: %v", l.in.Err())
	}
	return e
}

// Every event of the log comes once and in order to a client whose connection
// breaks at any event, while work goes on.
func TestEventsResumeWithNoneLostAndNoneTwice(t *testing.T) {
	r := start(t, "")
	for _, filter := range []string{"", "&type=a&type=b", "&kind=queued&kind=completed&kind=created"} {
		t.Run(filter, func(t *testing.T) { resumes(t, r, filter) })
	}
}

func resumes(t *testing.T, r *rig, filter string) {
	const items = 150
	first := uint64(1)
	if pos := want[wire.InfoReply](r, http.StatusOK, "GET", "/api/v1/info", "").Position; pos != "" {
		n, err := strconv.ParseUint(string(pos), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first = n + 1
	}
	w := r.work("a", 4, echo)
	done := make(chan error, 1)
	go func() {
		c := r.client()
		for i := range items {
			typ := "a"
			if i%3 == 0 {
				typ = "b" // which nobody does
			}
			if _, err := c.Submit(r.ctx, itemOf(typ)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	path := fmt.Sprintf("/api/v1/events?from_seq=%d%s", first, filter)
	var got []sse
	completed, connections := 0, 0
	for completed < items*2/3 {
		last := ""
		if len(got) > 0 {
			last = strconv.FormatUint(got[len(got)-1].id, 10)
		}
		l := r.listen(path, last)
		connections++
		for n := 1 + rand.IntN(40); n > 0 && completed < items*2/3; n-- {
			e := l.must()
			if got = append(got, e); e.name == "completed" {
				completed++
			}
		}
		l.close()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_ = w
	if connections < 5 {
		t.Errorf("the client has connected only %d times", connections)
	}
	compare(t, got, logged(t, r, events.Seq(first), filter))
}

// logged is what the log itself holds from a position on, as the filter lets
// it through.
func logged(t *testing.T, r *rig, from events.Seq, filter string) (all []wire.HistoryEvent) {
	t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	last := want[wire.InfoReply](r, http.StatusOK, "GET", "/api/v1/info", "").Position
	err := r.client().Tail(ctx, tailFrom(from), func(ev wire.HistoryEvent) error {
		wanted := filter == "" || strings.Contains(filter, "type=") && (ev.Type == "a" || ev.Type == "b") || strings.Contains(filter, "kind="+ev.Kind.String())
		if wanted {
			all = append(all, ev)
		}
		if ev.Seq.String() == string(last) {
			cancel()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	return all
}

func compare(t *testing.T, got []sse, all []wire.HistoryEvent) {
	t.Helper()
	if len(got) > len(all) {
		t.Fatalf("%d events came, the log has %d", len(got), len(all))
	}
	for i, e := range got {
		var ev wire.HistoryEvent
		if err := json.Unmarshal([]byte(e.data), &ev); err != nil {
			t.Fatalf("event %d: %v: %s", i, err, e.data)
		}
		if e.id != uint64(all[i].Seq) || ev.Seq != all[i].Seq || e.name != all[i].Kind.String() || ev.ID != all[i].ID {
			t.Fatalf("the %d. event is %+v, the log has %+v", i, e, all[i])
		}
	}
}

// A client that comes back in the midst of a decision gets the rest of it.
func TestEventsResumeWithinADecision(t *testing.T) {
	r := start(t, "")
	made := want[wire.Submitted](r, http.StatusCreated, "POST", "/api/v1/work", `{"type":"a"}`) // created and queued are one decision
	id := made.ID
	h := want[wire.HistoryReply](r, http.StatusOK, "GET", "/api/v1/work/"+id+"/history?min_position="+string(made.Position), "")
	for _, path := range []string{"/api/v1/events", "/api/v1/events?type=a", "/api/v1/events?id=" + id} {
		l := r.listen(path, h.Events[0].Seq.String())
		if e := l.must(); e.name != "queued" || e.id != uint64(h.Events[1].Seq) {
			t.Errorf("%s behind the first of two: %+v", path, e)
		}
		l.close()
	}
}

func TestEventsFilterAndBegin(t *testing.T) {
	r := start(t, "")
	a, b := r.submit(`{"type":"a","tenant":"acme"}`), r.submit(`{"type":"b","labels":{"region":"eu"}}`)
	for query, ids := range map[string][]string{"from_seq=1&id=" + b: {b, b}, "from_seq=1&type=a&kind=queued": {a}, "since=1h&kind=created": {a, b}, "since=2020-01-01T00:00:00Z&kind=queued&type=b": {b},
		"from_seq=1&tenant=acme": {a, a}, "from_seq=1&label=region%3Deu": {b, b}} {
		l := r.listen("/api/v1/events?"+query, "")
		for _, id := range ids {
			var ev wire.HistoryEvent
			if e := l.must(); json.Unmarshal([]byte(e.data), &ev) != nil || ev.ID != id {
				t.Errorf("%s: %s came, not one of %s", query, e.data, id)
			}
		}
		l.close()
	}
	// Without a beginning it is what comes next.
	l := r.listen("/api/v1/events", "")
	c := r.submit(`{"type":"c"}`)
	var ev wire.HistoryEvent
	if e := l.must(); json.Unmarshal([]byte(e.data), &ev) != nil || ev.ID != c && ev.Type != "c" {
		t.Errorf("live: %s", e.data)
	}
	l.close()
	r.refused(400, "bad_request", "Last-Event-ID", "GET", "/api/v1/events", "", "Last-Event-ID", "x")
	r.refused(400, "bad_request", "not reached yet", "GET", "/api/v1/events", "", "Last-Event-ID", "999999")
	r.refused(400, "bad_request", "one of them", "GET", "/api/v1/events?from_seq=1&since=1h", "")
	r.refused(400, "bad_time", "since", "GET", "/api/v1/events?since=soon", "")
	c2 := r.submit(`{"type":"c","tenant":"acme","labels":{"region":"eu"}}`)
	done, got := errors.New("done"), []string{}
	if err := r.client().Tail(t.Context(), streamwright.TailOptions{FromSeq: 1, Tenant: "acme", Label: "region=eu"}, func(ev streamwright.Event) error {
		if got = append(got, ev.ID); len(got) == 2 {
			return done
		}
		return nil
	}); err != done || !slices.Equal(got, []string{c2, c2}) {
		t.Errorf("a tail by tenant and label: %q, %v", got, err)
	}
	r.refused(400, "bad_request", "name=value", "GET", "/api/v1/events?label=x", "")
	r.refused(400, "bad_request", "event kind", "GET", "/api/v1/events?kind=nonsense", "")
	r.refused(400, "bad_type", "", "GET", "/api/v1/events?type=No", "")
	r.refused(400, "bad_id", "", "GET", "/api/v1/events?id=x", "")
}

func TestEventsTellOfAGap(t *testing.T) {
	r := start(t, "")
	c := r.client()
	for range 10 {
		r.submit(`{"type":"a"}`)
	}
	info := want[wire.InfoReply](r, http.StatusOK, "GET", "/api/v1/info", "")
	nc, err := r.e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("work.api.cut", nil, patience); err != nil {
		t.Fatal(err)
	}
	_ = c
	var first uint64
	r.eventually("the log is cut", func() bool {
		now := want[wire.InfoReply](r, http.StatusOK, "GET", "/api/v1/info", "")
		if now.Retention == nil {
			return false
		}
		first, _ = strconv.ParseUint(string(now.Retention.LogFirst), 10, 64)
		return first > uint64(events.SeqOf(1, 0)) && info.Position != ""
	})
	l := r.listen("/api/v1/events", "2")
	gap := l.must()
	if want := fmt.Sprintf(`{"from":3,"to":%d}`, first-1); gap.name != "gap" || gap.data != want || gap.id != first-1 {
		t.Errorf("the gap is %+v, not %s", gap, want)
	}
	if e := l.must(); e.id != first {
		t.Errorf("behind the gap comes %+v, not %d", e, first)
	}
}

func TestFollowLogs(t *testing.T) {
	r := start(t, "")
	go3 := make(chan struct{})
	r.work("talk", 1, func(ctx context.Context, it *item) (any, error) {
		it.Log("info", "one")
		it.Log("info", "two")
		<-go3
		it.Log("info", "three")
		return nil, nil
	})
	id := r.submit(`{"type":"talk"}`)
	l := r.listen("/api/v1/work/"+id+"/logs?follow=true", "")
	one := l.must()
	if one.name != "log" || !strings.Contains(one.data, `"one"`) || one.id == 0 {
		t.Errorf("first: %+v", one)
	}
	l.close()
	l = r.listen("/api/v1/work/"+id+"/logs?follow=true", strconv.FormatUint(one.id, 10))
	if two := l.must(); !strings.Contains(two.data, `"two"`) {
		t.Errorf("behind the first: %+v", two)
	}
	close(go3)
	three := l.must()
	if !strings.Contains(three.data, `"three"`) {
		t.Errorf("third: %+v", three)
	}
	if end := l.must(); end.name != "end" || !strings.Contains(end.data, `"completed"`) {
		t.Errorf("end: %+v", end)
	}
	if _, more := l.next(); more {
		t.Error("the stream goes on behind its end")
	}
	if res := r.send("GET", "/api/v1/work/"+id+"/logs?follow=true", "", "Last-Event-ID", strconv.FormatUint(three.id, 10)); res.status != http.StatusNoContent {
		t.Errorf("behind the end: status %d", res.status)
	}
	if logs := want[wire.LogsReply](r, http.StatusOK, "GET", "/api/v1/work/"+id+"/logs?limit=2", ""); len(logs.Records) != 2 || logs.Records[1].Message != "three" {
		t.Errorf("the last two: %+v", logs)
	}
	silent := r.submit(`{"type":"silent"}`)
	l = r.listen("/api/v1/work/"+silent+"/logs?follow=true", "")
	want[wire.Cancelled](r, http.StatusOK, "DELETE", "/api/v1/work/"+silent, "")
	if end := l.must(); end.name != "end" || !strings.Contains(end.data, `"cancelled"`) {
		t.Errorf("the end of an item without a log: %+v", end)
	}
	r.refused(400, "bad_request", "follow and limit", "GET", "/api/v1/work/"+id+"/logs?follow=true&limit=3", "")
}

// Stop ends feeds and waits at once, and lets no one hang.
func TestStopEndsFeedsAndWaits(t *testing.T) {
	r := start(t, "")
	id := r.submit(`{"type":"a"}`)
	l := r.listen("/api/v1/events", "")
	logs := r.listen("/api/v1/work/"+id+"/logs?follow=true", "")
	waits := make(chan response, 3)
	for range 3 {
		go func() { waits <- r.send("GET", "/api/v1/work/"+id+"/wait?timeout=300", "") }()
	}
	r.eventually("the waits are under way", func() bool {
		return strings.Contains(string(r.send("GET", "/metrics", "").body), "streamwright_waits 4\n")
	})
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("Stop took %v", took)
	}
	for range 3 {
		res := <-waits
		checkProblem(t, res, 503, "unavailable", "shutting down", "a wait")
		if res.header.Get("Retry-After") == "" {
			t.Error("a wait is not told when to come again")
		}
	}
	for _, l := range []*listener{l, logs} {
		if e, more := l.next(); more {
			t.Errorf("a feed goes on: %+v", e)
		}
	}
}
