package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestSubmitToCompleted(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email", Params: json.RawMessage(`{"to":"a"}`), Source: "test", Labels: map[string]string{"k": "v"}})
	if sub.State != events.StateQueued || sub.Position == "" || sub.ID == "" {
		t.Fatalf("submitted %+v", sub)
	}
	it := ask[wire.Item](r, wire.APIGet, wire.Get{ID: sub.ID, MinPosition: sub.Position})
	if it.State != events.StateQueued || string(it.Params) != `{"to":"a"}` || it.Labels["k"] != "v" {
		t.Fatalf("item %+v", it)
	}
	if got := r.run("email", wire.ReportComplete); !got.OK || got.State != events.StateCompleted {
		t.Fatalf("completed: %+v", got)
	}
	it = ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{sub.ID}}).Ended[0]
	if it.State != events.StateCompleted || string(it.Result) != `{"done":true}` {
		t.Fatalf("waited for %+v", it)
	}
	page := ask[wire.Listed](r, wire.APIList, wire.List{State: "completed", MinPosition: it.Position})
	if len(page.Items) != 1 || page.Items[0].ID != sub.ID {
		t.Fatalf("list %+v", page)
	}
	var kinds []string
	for _, e := range ask[wire.HistoryReply](r, wire.APIHistory, wire.History{ID: sub.ID}).Events {
		kinds = append(kinds, e.Kind.String())
	}
	if got := strings.Join(kinds, " "); got != "created queued claimed running completed" {
		t.Fatalf("history %s", got)
	}
	stats := ask[wire.StatsReply](r, wire.APIStats, nil)
	if len(stats.Types) != 1 || stats.Types[0].States["completed"] != 1 || stats.Workers != 1 {
		t.Fatalf("stats %+v", stats)
	}
	if list := ask[wire.WorkersReply](r, wire.APIWorkers, nil); len(list.Workers) != 1 || list.Workers[0].Worker != "w1" {
		t.Fatalf("workers %+v", list)
	}
	if info := ask[wire.InfoReply](r, wire.APIInfo, nil); info.Version != "1.2.3" || info.Epoch != 1 || info.FormatLevel != 1 || info.ReadsLevel != events.FormatLevel || info.Position == "" || info.Now.IsZero() {
		t.Fatalf("info %+v", info)
	}
}

func TestSubmitArray(t *testing.T) {
	r := newRig(t, nil)
	if got := ask[[]wire.Submitted](r, wire.APISubmit, []wire.Submit{}); len(got) != 0 {
		t.Errorf("empty array: %+v", got)
	}
	msg := r.raw(wire.APISubmit, `[
		{"type":"email","dedup_key":"k"},
		{"type":"Bad Type"},
		{"type":"email","colour":"red"},
		7,
		{"type":"email","dedup_key":"k"},
		{"type":"email","priority":"urgent"}]`)
	got, err := read[[]wire.Submitted](t, msg)
	if err != nil || len(got) != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].State != events.StateQueued || got[4].State != events.StateMerged || got[4].MergedInto != got[0].ID {
		t.Errorf("good ones: %+v, %+v", got[0], got[4])
	}
	for i, want := range map[int]struct {
		code events.Code
		text string
	}{
		1: {events.CodeBadType, "Bad Type"}, 2: {events.CodeBadRequest, `"colour"`}, 3: {events.CodeBadRequest, "number"}, 5: {events.CodeBadPriority, "priority"},
	} {
		if e := got[i].Error; e == nil || e.Code != want.code || !strings.Contains(e.Message, want.text) || got[i].ID != "" {
			t.Errorf("element %d: %+v", i, got[i])
		}
	}
	many := make([]wire.Submit, events.MaxSubmitBatch+1)
	for i := range many {
		many[i].Type = "bulk"
	}
	_, err = try[[]wire.Submitted](r, wire.APISubmit, many)
	wantCode(t, err, events.CodeTooLarge)
	all := ask[[]wire.Submitted](r, wire.APISubmit, many[1:])
	for i, a := range all {
		if a.Error != nil || i > 0 && a.ID <= all[i-1].ID {
			t.Fatalf("element %d: %+v", i, a)
		}
	}
}

// Every malformed request gets its code and says what is wrong.
func TestBadRequests(t *testing.T) {
	r := newRig(t, nil)
	id := events.ID{1}.String()
	tests := []struct {
		endpoint, body string
		code           events.Code
		text           string
	}{
		{wire.APISubmit, `{`, events.CodeBadRequest, "JSON"},
		{wire.APISubmit, `nonsense`, events.CodeBadRequest, "JSON"},
		{wire.APISubmit, `{"type":"a"} {}`, events.CodeBadRequest, "follows the JSON document"},
		{wire.APISubmit, `{"type":"a","parms":1}`, events.CodeBadRequest, `"parms"`},
		{wire.APISubmit, `{"type":5}`, events.CodeBadRequest, "type is a number"},
		{wire.APISubmit, ``, events.CodeBadType, "type"},
		{wire.APISubmit, `{"type":"a","priority":10}`, events.CodeBadPriority, "10"},
		{wire.APISubmit, `{"type":"a","id":"x"}`, events.CodeBadID, "ULID"},
		{wire.APISubmit, `{"type":"a","params":"` + strings.Repeat("x", 300<<10) + `"}`, events.CodeTooLarge, ""},
		{wire.APISubmit, `[{]`, events.CodeBadRequest, "JSON"},
		{wire.APIReport, `{"event":"start"}`, events.CodeBadRequest, "token"},
		{wire.APIReport, `{"id":"` + id + `","token":"!","event":"claim","worker":"w"}`, events.CodeBadRequest, "token"},
		{wire.APIGet, `{}`, events.CodeBadRequest, "either"},
		{wire.APIGet, `{"id":"x"}`, events.CodeBadID, "ULID"},
		{wire.APIGet, `{"id":"` + id + `"}`, events.CodeNotFound, id},
		{wire.APIGet, `{"intake_seq":5}`, events.CodeNotFound, "no intake message 5"},
		{wire.APIGet, `{"id":"` + id + `","min_position":"x"}`, events.CodeBadRequest, "position"},
		{wire.APIHistory, `{"id":"` + id + `"}`, events.CodeNotFound, id},
		{wire.APILogs, `{"id":"` + id + `"}`, events.CodeNotFound, id},
		{wire.APILogs, `{"id":"` + id + `","limit":10001}`, events.CodeBadRequest, "10000"},
		{wire.APICancel, `{"id":"` + id + `"}`, events.CodeNotFound, ""},
		{wire.APIReschedule, `{"id":"` + id + `"}`, events.CodeBadRequest, "nothing to change"},
		{wire.APIWait, `{"ids":["` + id + `"]}`, events.CodeNotFound, id},
		{wire.APIWait, `{"ids":["` + id + `"],"timeout_ms":300001}`, events.CodeBadTime, "300000"},
		{wire.APIWait, `{"timeout_ms":1}`, events.CodeBadRequest, "ids has 0 elements: wait for 1 to 1000"},
		{wire.APIWait, `{"ids":["` + id + `","x"]}`, events.CodeBadID, `"x"`},
		{wire.APIWait, `{"ids":[""` + strings.Repeat(`,""`, wire.MaxWaitIDs) + `]}`, events.CodeBadRequest, "1001"},
		{wire.APIList, `{"state":"sleeping"}`, events.CodeBadRequest, "sleeping"},
		{wire.APIStats, `{"x":1}`, events.CodeBadRequest, `"x"`},
		{wire.APIConfigure, `{"type":"a"}`, events.CodeBadRequest, "nothing to change"},
		{wire.APIConfigure, `{"type":"a","settings":{"capacty":1}}`, events.CodeBadRequest, "capacty"},
		{wire.APIConfigure, `{"type":"a","settings":{"capacity":0}}`, events.CodeBadRequest, "capacity"},
		{wire.APIConfigure, `{"type":"A"}`, events.CodeBadType, ""},
		{wire.APIBatch, `{"count":-1}`, events.CodeBadRequest, "count is -1"},
		{wire.APIBatch, `{"count":0}`, events.CodeBadRequest, "count is 0"},
		{wire.APISubmit, `{"Type":"a"}`, events.CodeBadRequest, `write it as "type"`},
		{wire.APISubmit, `{"type":"a","type":"b"}`, events.CodeBadRequest, "occurs twice"},
		{wire.APIReplay, `{"id":"x","max_attempts":0}`, events.CodeBadRequest, "max_attempts is 0"},
		{wire.APISubmit, `{"type":"a","available_at":"tomorrow"}`, events.CodeBadTime, "available_at"},
		{wire.APISubmit, `{"type":"a","dedup_policy":"merge"}`, events.CodeBadRequest, "no dedup key"},
		{wire.APIDrain, `{"worker":"absent"}`, events.CodeNotFound, "absent"},
		{wire.APIRegister, `{"worker":"w"}`, events.CodeBadRequest, ""},
	}
	for _, tt := range tests {
		_, err := read[json.RawMessage](t, r.raw(tt.endpoint, tt.body))
		if events.CodeOf(err) != tt.code || !strings.Contains(fmt.Sprint(err), tt.text) {
			t.Errorf("%s %.60s: %v\nwant %s: %s", tt.endpoint, tt.body, err, tt.code, tt.text)
		}
	}
}

func TestReportArrayWithBadElement(t *testing.T) {
	r := newRig(t, nil)
	got, err := read[[]wire.Reported](t, r.raw(wire.APIReport, `[{"evnt":"start"},{"id":"`+events.ID{1}.String()+`","token":"5","worker":"w","event":"start"}]`))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].Error.Code != events.CodeBadRequest || got[1].OK || got[1].Error == nil {
		t.Fatalf("%+v", got)
	}
}

func TestCancelRescheduleConfigure(t *testing.T) {
	owned := func(events.Type, events.TypeSettings) []string { return nil }
	r := newRig(t, func(c *Config) {
		c.OwnedByFile = func(t events.Type, s events.TypeSettings) []string { return owned(t, s) }
	})
	sub := r.submit(wire.Submit{Type: "email", Delay: events.Millis(3_600_000)})
	nine := wire.Priority(9)
	if got := ask[wire.Rescheduled](r, wire.APIReschedule, wire.Reschedule{ID: sub.ID, Priority: &nine, Now: true}); got.State != events.StateQueued || got.ID != sub.ID {
		t.Fatalf("rescheduled %+v", got)
	}
	if got := ask[wire.Cancelled](r, wire.APICancel, wire.Cancel{ID: sub.ID, Reason: "no more"}); got.State != events.StateCancelled || got.WasRunning {
		t.Fatalf("cancelled %+v", got)
	}
	_, err := try[wire.Rescheduled](r, wire.APIReschedule, wire.Reschedule{ID: sub.ID, Now: true})
	wantCode(t, err, events.CodeWrongState)

	got := ask[wire.TypeReply](r, wire.APIConfigure, wire.Configure{Type: "fresh", Settings: json.RawMessage(`{"capacity":7,"backoff":{"max_ms":60000},"per_priority":{"8":{"max_attempts":2}}}`)})
	if got.Settings.Capacity != 7 || got.Settings.Backoff.Max != events.Millis(60000) || got.Settings.Backoff.Initial != events.Millis(1000) || *got.Settings.PerPriority[8].MaxAttempts != 2 || got.Source != events.SourceAPI {
		t.Fatalf("configured %+v", got)
	}
	got = ask[wire.TypeReply](r, wire.APIConfigure, wire.Configure{Type: "fresh", Settings: json.RawMessage(`{"lease_ms":5000}`)})
	if got.Settings.Capacity != 7 || got.Settings.Lease != events.Millis(5000) {
		t.Fatalf("configured again %+v", got)
	}
	if all := ask[wire.TypesReply](r, wire.APITypes, nil); len(all.Types) != 2 {
		t.Fatalf("types %+v", all)
	}
	owned = func(events.Type, events.TypeSettings) []string { return []string{"lease"} }
	_, err = try[wire.TypeReply](r, wire.APIConfigure, wire.Configure{Type: "fresh", Settings: json.RawMessage(`{"lease_ms":6000}`)})
	wantCode(t, err, events.CodeSetInFile)
}

// A request that is refused, say for a misspelt setting, makes no type.
func TestConfigureRefusedMakesNoType(t *testing.T) {
	r := newRig(t, nil)
	for settings, says := range map[string]string{
		`{"capacty":7}`:            "capacty",
		`{"capacity":-1}`:          "capacity is -1",
		`{"pool":"nosuch"}`:        "there is no pool",
		`{"rates":[{"n":5}]}`:      "must be tenant or label:NAME, or type; rates[0].at",
		`{"lease_ms":"5s"}`:        "whole number",
		`{"per_priority":{"x":1}}`: "per_priority",
	} {
		_, err := try[wire.TypeReply](r, wire.APIConfigure, wire.Configure{Type: "emial", Settings: json.RawMessage(settings)})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want an error on one line with %q", settings, err, says)
		}
	}
	if all := ask[wire.TypesReply](r, wire.APITypes, nil); len(all.Types) != 0 {
		t.Fatalf("types %+v", all.Types)
	}
	defaults := events.DefaultTypeSettings().Capacity
	got := ask[wire.TypeReply](r, wire.APIConfigure, wire.Configure{Type: "email", Settings: fmt.Appendf(nil, `{"capacity":%d}`, defaults)})
	if got.Source != events.SourceAPI || got.Settings.Capacity != defaults {
		t.Fatalf("configured %+v", got)
	}
}

// Who publishes asks for the item at once, with the sequence of the ack: the
// engine answers when it has decided.
func TestGetByIntake(t *testing.T) {
	r := newRig(t, nil)
	for n := range 200 {
		seq := r.publish("work.submit.email", fmt.Sprintf(`{"n":%d}`, n))
		if it := ask[wire.Item](r, wire.APIGet, wire.Get{IntakeSeq: seq}); string(it.Params) != fmt.Sprintf(`{"n":%d}`, n) || it.IntakeSeq != seq {
			t.Fatalf("intake message %d became %+v", seq, it)
		}
	}
	_, err := try[wire.Item](r, wire.APIGet, wire.Get{IntakeSeq: r.publish("work.submit.email", `{`)})
	wantCode(t, err, events.CodeNotFound)
	if !strings.Contains(err.Error(), "was rejected") {
		t.Error(err)
	}
}

// A message that the engine does not read for want of room is answered at once,
// with the reason.
func TestGetByIntakeOfOneThatWaits(t *testing.T) {
	full := &RoomAlarm{Why: &events.Error{Code: events.CodeUnavailable, Message: "the disk is full"}}
	r := newRig(t, func(c *Config) { c.Full = func() *RoomAlarm { return full } })
	s := r.svc
	if err := s.items.errUndecided(7); !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
	for range cap(s.items.undecided) {
		s.items.undecided <- struct{}{}
	}
	if _, err := s.items.idOfIntake(r.ctx(), 7); events.CodeOf(err) != events.CodeNotFound || !strings.Contains(err.Error(), "not decided yet") {
		t.Errorf("with as many requests waiting as may: %v", err)
	}
}

// publish sends a plain publish and returns the sequence in its ack.
func (r *rig) publish(subject, body string) uint64 {
	r.t.Helper()
	msg, err := r.nc.RequestWithContext(r.ctx(), subject, []byte(body))
	if err != nil {
		r.t.Fatal(err)
	}
	var ack struct{ Seq uint64 }
	if err := json.Unmarshal(msg.Data, &ack); err != nil {
		r.t.Fatal(err)
	}
	return ack.Seq
}

// until returns when cond holds.
func until(t *testing.T, r *rig, cond func() bool) {
	t.Helper()
	for ctx := r.ctx(); !cond(); {
		if ctx.Err() != nil {
			t.Fatal("it never came to hold")
		}
	}
}

func TestWaits(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email", DedupKey: "k"})
	merged := r.submit(wire.Submit{Type: "email", DedupKey: "k"})

	// Not yet: as it is when the time is over.
	if w := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{sub.ID}, Timeout: events.Millis(1), MinPosition: sub.Position}); len(w.Ended) != 0 || w.Pending[0] != (wire.PendingItem{ID: sub.ID, State: events.StateQueued}) {
		t.Fatalf("waited for %+v", w)
	}
	// Many at once, on the item and on the one merged into it.
	var wg sync.WaitGroup
	for i := range 50 {
		id := sub.ID
		if i%2 == 1 {
			id = merged.ID
		}
		wg.Go(func() {
			w, err := try[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{id}, Timeout: events.Millis(20_000), MinPosition: merged.Position})
			if err != nil || w.Ended[0].ID != sub.ID || w.Ended[0].State != events.StateCompleted {
				t.Errorf("waited for %+v, %v", w, err)
			}
		})
	}
	until(t, r, func() bool { return r.svc.waits.count() == 50 })
	r.run("email", wire.ReportComplete)
	wg.Wait()
	// Ended long ago.
	if it := ask[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{merged.ID}}).Ended[0]; it.ID != sub.ID || it.State != events.StateCompleted {
		t.Fatalf("waited for %+v", it)
	}
	if n := r.svc.waits.count(); n != 0 {
		t.Fatalf("%d waits are left", n)
	}
}

// Stop answers those who wait, and refuses what comes after.
func TestStopAnswersWaits(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email"})
	errs := make(chan error, 20)
	for range cap(errs) {
		go func() {
			_, err := try[wire.Waited](r, wire.APIWait, wire.Wait{IDs: []string{sub.ID}, Timeout: events.Millis(20_000), MinPosition: sub.Position})
			errs <- err
		}()
	}
	until(t, r, func() bool { return r.svc.waits.count() == cap(errs) })
	if err := r.svc.Stop(r.ctx()); err != nil {
		t.Fatal(err)
	}
	for range cap(errs) {
		wantCode(t, <-errs, events.CodeUnavailable)
	}
	if err := r.svc.Start(); err == nil {
		t.Error("started after Stop")
	}
}

func TestMinPositionIsBounded(t *testing.T) {
	r := newRig(t, nil)
	next := r.eng.Position() + 1
	ctx, cancel := context.WithCancel(r.ctx())
	cancel()
	if err := r.svc.engine.await(ctx, wire.PositionOf(next)); err == nil {
		t.Fatal("no error for a position that is not reached")
	}
	ctx, cancel = context.WithTimeout(r.ctx(), time.Millisecond)
	defer cancel()
	wantCode(t, r.svc.engine.await(ctx, wire.PositionOf(next)), events.CodePositionAhead)
	wantCode(t, r.svc.engine.await(r.ctx(), "1000000"), events.CodePositionAhead)
}

// More queries than there is room for are told so.
func TestQueriesAreBounded(t *testing.T) {
	r := newRig(t, nil)
	for range MaxQueries {
		r.svc.queries <- struct{}{}
	}
	_, err := try[wire.Item](r, wire.APIGet, wire.Get{ID: events.ID{1}.String()})
	wantCode(t, err, events.CodeUnavailable)
	// Workers have room of their own.
	ask[wire.Registered](r, wire.APIRegister, wire.Register{Worker: "w", Session: "s", Types: []string{"a"}, Slots: 1})
	for range MaxQueries {
		<-r.svc.queries
	}
}

func TestLogs(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email"})
	id, _ := events.ParseID(sub.ID)
	other := r.submit(wire.Submit{Type: "email"})
	otherID, _ := events.ParseID(other.ID)
	ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{MinPosition: other.Position}) // logs looks the item up
	if got := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID}); len(got.Records) != 0 {
		t.Fatalf("records of nothing: %+v", got)
	}
	for i := range 1203 {
		body, _ := json.Marshal(wire.LogRecord{At: time.Now(), Level: "warn", Attempt: 1, Message: fmt.Sprint(i)})
		for _, to := range []events.ID{id, otherID} {
			if err := r.nc.Publish(wire.Default.Log("email", to), body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := r.nc.RequestWithContext(r.ctx(), wire.Default.Log("email", id), []byte("plain text")); err != nil {
		t.Fatal(err)
	}
	got := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID}).Records
	if len(got) != 1000 || got[0].Message != "204" || got[998].Message != "1202" || got[999].Message != "plain text" || got[999].Level != "info" || got[999].At.IsZero() {
		t.Fatalf("%d records, %+v … %+v", len(got), got[0], got[len(got)-1])
	}
	all := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID, Limit: 10_000}).Records
	if len(all) != 1204 || all[0].Message != "0" || all[0].Seq == 0 || all[0].Level != "warn" {
		t.Fatalf("%d records, %+v", len(all), all[0])
	}
	if two := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID, Limit: 2}).Records; len(two) != 2 || two[1].Message != "plain text" {
		t.Fatalf("the last two: %+v", two)
	}
	large := strings.Repeat("x", 60<<10)
	for i := range 100 {
		if err := r.nc.Publish(wire.Default.Log("email", id), fmt.Appendf(nil, "%d %s", i, large)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.nc.RequestWithContext(r.ctx(), wire.Default.Log("email", id), []byte("the last")); err != nil {
		t.Fatal(err)
	}
	bounded := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID}).Records
	if n := len(bounded); n != lastLogBytes/(60<<10)+1 || bounded[n-1].Message != "the last" {
		t.Fatalf("%d large records, the last %.20q", len(bounded), bounded[len(bounded)-1].Message)
	}
}

func TestVerifyAndRebuildStream(t *testing.T) {
	r := newRig(t, nil)
	many := make([]wire.Submit, 500)
	for i := range many {
		many[i].Type = "bulk"
	}
	ask[[]wire.Submitted](r, wire.APISubmit, many)
	for _, op := range []string{wire.APIVerify, wire.APIRebuild} {
		sub, err := r.nc.SubscribeSync(r.nc.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.nc.PublishRequest(wire.Default.API(op), sub.Subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			msg, err := sub.NextMsgWithContext(r.ctx())
			if err != nil {
				t.Fatal(err)
			}
			p, err := read[wire.VerifyReply](t, msg)
			if err != nil {
				t.Fatal(err)
			}
			if done = p.Done; done && (!p.Equal || p.Total == 0 || p.Events != p.Total) {
				t.Fatalf("%s: %+v", op, p)
			}
		}
		_ = sub.Unsubscribe()
	}
	r.svc.proofs.proving <- struct{}{}
	_, err := try[wire.VerifyReply](r, wire.APIVerify, nil)
	wantCode(t, err, events.CodeUnavailable)
	<-r.svc.proofs.proving
}

// The tools find the service, with all its endpoints.
func TestMicroDiscovery(t *testing.T) {
	r := newRig(t, nil)
	inbox := r.nc.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.nc.PublishRequest("$SRV.INFO."+wire.Service, inbox, nil); err != nil {
		t.Fatal(err)
	}
	found := 0
	for range 2 { // what only the owner answers, and what any node does
		msg, err := sub.NextMsgWithContext(r.ctx())
		if err != nil {
			t.Fatal(err)
		}
		var info micro.Info
		if err := json.Unmarshal(msg.Data, &info); err != nil {
			t.Fatal(err)
		}
		if info.Version != "1.2.3" {
			t.Fatalf("%+v", info)
		}
		found += len(info.Endpoints)
	}
	if found != len(r.svc.endpoints()) {
		t.Fatalf("%d endpoints of %d", found, len(r.svc.endpoints()))
	}
}

func TestHTTP(t *testing.T) {
	r := newRig(t, nil)
	r.submit(wire.Submit{Type: "email"})
	r.run("email", wire.ReportComplete)
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", r.svc.HealthHandler())
	mux.Handle("GET /metrics", r.svc.MetricsHandler())
	h := httptest.NewServer(mux)
	defer h.Close()
	addr := h.Listener.Addr().String()
	r.svc.ServesHTTP(addr)
	if info := ask[wire.InfoReply](r, wire.APIInfo, nil); info.HTTP != addr {
		t.Errorf("info has %q", info.HTTP)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(h.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	var health Health
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil || resp.StatusCode != 200 || health.Status != "ok" || health.Owner != "test" || health.Epoch != 1 {
		t.Errorf("health %d %+v, %v", resp.StatusCode, health, err)
	}
	resp.Body.Close()
	until(t, r, func() bool {
		got := scrape(t, client, addr)
		for _, want := range []string{
			`streamwright_items{state="completed",type="email"} 1`, `streamwright_queued{priority="5",type="email"} 0`, `streamwright_in_flight{type="email"} 0`, `streamwright_capacity{type="email"} 1000`,
			`streamwright_workers{state="active"} 1`, `streamwright_workers{state="draining"} 0`, `streamwright_workers{state="unhealthy"} 0`, `streamwright_workers{state="dead"} 0`, `streamwright_type_workers{type="email"} 1`, `streamwright_projection_lag_events 0`, `streamwright_partition_owned 1`, `streamwright_partition_epoch 1`,
			`streamwright_dispatched_total{type="email"} 1`, `streamwright_requests_total{code="ok",endpoint="submit"} 1`, `streamwright_rejected_total 0`, `streamwright_ownerships_lost_total 0`,
		} {
			if !got[want] {
				return false
			}
		}
		return true
	})
	r.metrics.owned.Store(false)
	if h := r.svc.Health(); h.Status != "not_owner" {
		t.Errorf("health of one that owns nothing: %+v", h)
	}
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/healthz", nil))
	if rec.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", rec.Code)
	}
	rec = httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("POST", "/healthz", nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST gives %d", rec.Code)
	}
}

func scrape(t *testing.T, client *http.Client, addr string) map[string]bool {
	t.Helper()
	resp, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := map[string]bool{}
	for s := bufio.NewScanner(resp.Body); s.Scan(); {
		lines[s.Text()] = true
	}
	return lines
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("an empty Config was taken")
	}
	r := newRig(t, nil)
	if _, err := New(r.svc.Config); err == nil {
		t.Error("two services share their metrics")
	}
	for in, want := range map[string]string{"1.2.3": "1.2.3", "v1": "0.0.0", "dev": "0.0.0", "1.2.3-rc1": "1.2.3"} {
		if got := semver(in); got != want {
			t.Errorf("semver(%q) = %q", in, got)
		}
	}
}

// Reports in arrays of 100, decided but refused: what the service itself costs.
func BenchmarkReports(b *testing.B) {
	r := newRig(b, nil)
	reports := make([]wire.Report, 100)
	for i := range reports {
		reports[i] = wire.Report{ID: events.ID{byte(i), 1}.String(), Token: "5", Worker: "w1", Session: "s1", Event: wire.ReportComplete, Attempt: 1, Result: json.RawMessage(`{"sum":"0123456789abcdef","bytes":123456}`)}
	}
	body, err := json.Marshal(reports)
	if err != nil {
		b.Fatal(err)
	}
	inBulk(b, r, wire.APIReport, body, len(reports))
}

// Submissions in arrays of 100, each durable.
func BenchmarkSubmits(b *testing.B) {
	r := newRig(b, nil)
	subs := make([]wire.Submit, 100)
	for i := range subs {
		subs[i] = wire.Submit{Type: "email", Params: json.RawMessage(`{"to":"someone@example.org","n":12345}`), Source: "bench"}
	}
	body, err := json.Marshal(subs)
	if err != nil {
		b.Fatal(err)
	}
	inBulk(b, r, wire.APISubmit, body, len(subs))
}

// inBulk keeps 16 requests of n elements under way; ns/op is of an element.
func inBulk(b *testing.B, r *rig, endpoint string, body []byte, n int) {
	replies := make(chan *nats.Msg, 16)
	sub, err := r.nc.ChanSubscribe(r.nc.NewInbox(), replies)
	if err != nil {
		b.Fatal(err)
	}
	defer sub.Unsubscribe()
	ask := func() {
		if err := r.nc.PublishRequest(wire.Default.API(endpoint), sub.Subject, body); err != nil {
			b.Fatal(err)
		}
	}
	under := 0
	b.ResetTimer()
	for i := 0; i < b.N; i += n {
		if under == cap(replies) {
			<-replies
			under--
		}
		ask()
		under++
	}
	for ; under > 0; under-- {
		<-replies
	}
}
