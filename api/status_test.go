package api

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// statuses are the words of a NATS server's that a client can imitate.
var statuses = []struct{ status, description string }{
	{"100", "Idle Heartbeat"}, {"100", "FlowControl Request"}, {"400", "Bad Request"}, {"404", "No Messages"}, {"408", "Request Timeout"},
	{"409", "Consumer Deleted"}, {"409", "Message Size Exceeds MaxBytes"}, {"409", "Leadership Change"}, {"503", ""},
}

func asStatus(subject, body string, i int) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	m.Header.Set("Status", statuses[i].status)
	m.Header.Set("Description", statuses[i].description)
	return m
}

// decided waits for the answer to a message of the intake.
func (r *rig) decided(seq uint64) error {
	r.t.Helper()
	for end := time.Now().Add(patience / 2); ; {
		meta, err := r.store.Meta()
		if err != nil {
			r.t.Fatal(err)
		}
		_, err = try[wire.Item](r, wire.APIGet, wire.Get{IntakeSeq: seq})
		if err == nil || meta.IntakeSeq >= seq {
			return err
		}
		if time.Now().After(end) {
			r.t.Fatalf("the intake is stuck at %d, before %d", meta.IntakeSeq, seq)
		}
	}
}

// A submission that looks like a word of the server's stops nobody who reads the
// intake. (The consumers of nats.go take one without a body for that.)
func TestSubmissionsThatLookLikeStatuses(t *testing.T) {
	r := newRig(t, nil)
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	subject := wire.Default.Submit("email")
	for i, st := range statuses {
		for _, body := range []string{"", `{"n":1}`} {
			odd, err := js.PublishMsg(r.ctx(), asStatus(subject, body, i))
			if err != nil {
				t.Fatal(err)
			}
			behind, err := js.Publish(r.ctx(), subject, []byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.decided(behind.Sequence); err != nil {
				t.Errorf("%s, body %q: the submission behind it: %v", st, body, err)
			}
			if err := r.decided(odd.Sequence); body == "" {
				wantCode(t, err, events.CodeNotFound) // it was rejected
			}
		}
	}
	// The server's own "no message found".
	if err := r.nc.PublishRequest("$JS.API.DIRECT.GET."+wire.Default.EventStream(0), subject, []byte(`{"seq":99999999}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nc.Request("$JS.API.STREAM.INFO."+wire.Default.IntakeStream(), nil, patience); err != nil { // behind it
		t.Fatal(err)
	}
	behind, err := js.Publish(r.ctx(), subject, []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.decided(behind.Sequence); err != nil {
		t.Errorf("behind the server's own: %v", err)
	}
}

// Records that look like words of the server's, or that claim another place in
// the log, cut no reader short.
func TestRecordsThatLookLikeStatuses(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email"})
	id, err := events.ParseID(sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	followed := make(chan wire.LogRecord, 100)
	ctx, cancel := context.WithCancel(r.ctx())
	ended := make(chan error, 1)
	go func() {
		ended <- r.svc.Logs.Follow(ctx, "email", id, 0, nil, func(rec wire.LogRecord) error { followed <- rec; return nil })
	}()
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	subject, n := wire.Default.Log("email", id), 0
	put := func(m *nats.Msg) {
		n++
		if _, err := js.PublishMsg(r.ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range statuses {
		for _, body := range []string{"", `{"message":"odd"}`} {
			put(asStatus(subject, body, i))
		}
	}
	liar := nats.NewMsg(subject)
	liar.Header.Set("Nats-Sequence", "0")
	liar.Header.Set("Nats-Stream", "OTHER")
	liar.Header.Set("Nats-Num-Pending", "0")
	put(liar)
	put(&nats.Msg{Subject: subject, Data: []byte(`{"message":"last"}`)})
	got := ask[wire.LogsReply](r, wire.APILogs, wire.Logs{ID: sub.ID}).Records
	if len(got) != n || got[n-1].Message != "last" || got[n-1].Seq != uint64(n) || got[n-2].Seq != uint64(n-1) {
		t.Errorf("%d records of %d, the last %+v", len(got), n, got[len(got)-1])
	}
	for i := range n {
		select {
		case rec := <-followed:
			if rec.Seq != uint64(i+1) {
				t.Fatalf("record %d has the sequence %d", i+1, rec.Seq)
			}
		case <-time.After(patience / 2):
			t.Fatalf("the follower has got %d records of %d", i, n)
		}
	}
	cancel()
	<-ended
}

// What somebody publishes to the log itself is skipped as foreign, and the tails
// go on behind it.
func TestForeignEventsThatLookLikeStatuses(t *testing.T) {
	r := newRig(t, nil)
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range statuses {
		if _, err := js.PublishMsg(r.ctx(), asStatus("work.frame.0", "", i)); err != nil {
			t.Fatal(err)
		}
	}
	var last wire.Submitted
	soon(t, func() (err error) { // the engine has to see that the log has grown
		last, err = try[wire.Submitted](r, wire.APISubmit, wire.Submit{Type: "email"})
		return err
	})
	ctx, cancel := context.WithTimeout(r.ctx(), patience/2)
	defer cancel()
	for _, types := range [][]events.Type{nil, {"email"}} {
		found := false
		err := r.svc.Feed().Tail(ctx, pages.TailConfig{FromSeq: 1, Types: types}, func(ev events.Event) error {
			if found = ev.ID.String() == last.ID; found {
				return context.Canceled
			}
			return nil
		})
		if !found {
			t.Fatalf("a tail of %v has ended: %v", types, err)
		}
	}
}
