package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// sameSubject is a hook for which two items are the same if their params are.
type sameSubject struct{ asked chan int }

func (h *sameSubject) Judge(_ context.Context, q DedupQuestion) (events.Verdict, error) {
	h.asked <- len(q.Candidates)
	for _, c := range q.Candidates {
		if string(c.Params) == string(q.Submission.Params) {
			id, err := events.ParseID(c.ID)
			return events.Verdict{Policy: events.DedupMerge, Canonical: id, Reason: "same params"}, err
		}
	}
	if strings.Contains(string(q.Submission.Params), "unclear") {
		return events.Verdict{}, errors.New("no idea")
	}
	return events.Verdict{Policy: events.DedupDistinct}, nil
}

func (h *harness) submitParams(typ events.Type, params, key string) Outcome {
	h.t.Helper()
	o := h.do(core.Submit{Type: typ, NewID: h.eng.NewID(), Params: json.RawMessage(params), DedupKey: key})
	if err := h.eng.Await(h.ctx(), o.Position); err != nil {
		h.t.Fatal(err)
	}
	return o
}

func TestDedupHook(t *testing.T) {
	hook := &sameSubject{asked: make(chan int, 100)}
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Hook: hook, Types: []events.Type{"email"}, Candidates: 2, KeySeparator: "/", Fallback: dedup.FallbackDistinct}
	})
	first := h.submitParams("email", `{"to":"a"}`, "").Decision.ID
	h.submitParams("call", `{"to":"a"}`, "") // of which nobody asks
	if it := h.submitParams("email", `{"to":"a"}`, "").Item; it.MergedInto != first {
		t.Fatalf("%+v", it)
	}
	if it := h.submitParams("email", `"unclear"`, "").Item; it.State != events.StateQueued {
		t.Fatalf("%+v", it)
	}
	h.submitParams("email", `{"to":"b"}`, "")
	h.submitParams("email", `{"to":"c"}`, "x/y")
	h.submitParams("email", `{"to":"d"}`, "x/z") // compared with those of x/
	want := []int{0, 1, 1, 2, 0, 1}
	for i, n := range want {
		if got := <-hook.asked; got != n {
			t.Errorf("question %d had %d candidates, want %d", i, got, n)
		}
	}
	// By the intake, in their order and once each.
	for i := range 50 {
		if _, err := h.js.Publish(h.ctx(), "work.submit.email", fmt.Appendf(nil, `{"n":%d}`, i/2)); err != nil {
			t.Fatal(err)
		}
	}
	h.until("the intake is answered", func() bool { return h.eng.answered.Load() == 50 })
	if err := h.eng.Await(h.ctx(), h.eng.Position()); err != nil {
		t.Fatal(err)
	}
	var last events.ID
	for seq := uint64(1); seq <= 50; seq++ {
		id, found, err := h.store.ByIntake(seq)
		if err != nil || !found {
			t.Fatalf("message %d: %v, %v", seq, found, err)
		}
		it := h.item(id)
		if !last.IsZero() && it.CreatedSeq < h.item(last).CreatedSeq {
			t.Fatalf("message %d was decided out of its turn", seq)
		}
		last = id
	}
}

func TestDedupHookOverNATS(t *testing.T) {
	var answer func(*nats.Msg)
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Hook: &NATSDedupHook{Conn: c.Conn, Subject: "host.dedup"}, Timeout: 5 * time.Second}
	})
	// Nobody answers: by the key.
	holder := h.submitParams("email", `1`, "k").Decision.ID
	if it := h.submitParams("email", `1`, "k").Item; it.MergedInto != holder {
		t.Fatalf("%+v", it)
	}
	sub, err := h.nc.Subscribe("host.dedup", func(m *nats.Msg) { answer(m) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	answer = func(m *nats.Msg) {
		var q dedup.NATSQuestion
		if err := json.Unmarshal(m.Data, &q); err != nil || q.Submission.Type != "email" || len(q.Candidates) != 1 {
			t.Errorf("asked %s, %v", m.Data, err)
		}
		data, _ := json.Marshal(dedup.NATSAnswer{Policy: events.DedupDefer, Canonical: q.Candidates[0].ID, Reason: "alike"})
		_ = m.Respond(data)
	}
	o := h.submitParams("email", `2`, "")
	if it := o.Item; it.State != events.StateWaiting || it.Relations.Waits[0] != holder {
		t.Fatalf("%+v", it)
	}
	answer = func(m *nats.Msg) { _ = m.Respond([]byte(`{"policy":"perhaps"}`)) }
	if it := h.submitParams("email", `3`, "k").Item; it.MergedInto != holder {
		t.Fatalf("%+v", it)
	}
}

// A request whose submissions are being judged when the engine stops is answered.
func TestStopWhileJudging(t *testing.T) {
	asked := make(chan struct{})
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Hook: hookFunc(func(ctx context.Context) { close(asked); <-ctx.Done() }), Timeout: time.Minute}
	})
	out := make(chan []Outcome, 1)
	if err := h.eng.Do(h.ctx(), []core.Command{core.Submit{Type: "email", NewID: h.eng.NewID()}}, func(o []Outcome) { out <- o }); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := h.eng.Stop(h.ctx()); err != nil {
		t.Fatal(err)
	}
	if o := <-out; events.CodeOf(o[0].Err) != events.CodeUnavailable {
		t.Fatalf("%+v", o)
	}
}

type hookFunc func(context.Context)

func (f hookFunc) Judge(ctx context.Context, _ DedupQuestion) (events.Verdict, error) {
	f(ctx)
	return events.Verdict{}, ctx.Err()
}

func TestScoreReplacesTheOrder(t *testing.T) {
	h := newHarness(t, func(c *Config) {
		c.ScoreTypes = []events.Type{"scored"}
		c.Score = func(s core.Submit) time.Duration {
			var n int
			_ = json.Unmarshal(s.Params, &n)
			return time.Duration(n) * time.Hour
		}
	})
	high := events.PriorityHigh
	var want [3]events.ID
	for _, n := range []string{"1", "3", "2"} {
		c := core.Submit{Type: "scored", NewID: h.eng.NewID(), Params: json.RawMessage(n)}
		if n == "1" {
			c.Priority = &high // which counts for nothing
		}
		want[3-int(n[0]-'0')] = h.do(c).Decision.ID
	}
	h.register("w", 1, "scored")
	for i, id := range want {
		m := h.pull("scored")
		if got := reportOf(m, "").ID; got != id.String() {
			t.Fatalf("%d: %s, want %s", i, got, id)
		}
		if a := h.begin(m); !a.OK {
			t.Fatalf("%+v", a)
		}
		if a := h.report(reportOf(m, "complete")); !a[0].OK {
			t.Fatalf("%+v", a)
		}
	}
}
