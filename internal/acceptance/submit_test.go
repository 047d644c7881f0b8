package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestThousandSubmitsOfOneKey(t *testing.T) {
	t.Parallel()
	r := inMemory(t, "")
	const n = 1000
	got := make([]streamwright.Submitted, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			got[i], errs[i] = r.c.Submit(r.ctx, streamwright.Item{Type: "email", Params: i, DedupKey: "one", Source: fmt.Sprintf("caller-%d", i)})
		})
	}
	wg.Wait()
	var first string
	merged := map[string]string{} // source by id
	for i, s := range got {
		switch {
		case errs[i] != nil:
			t.Fatal(errs[i])
		case s.State == events.StateQueued && first == "":
			first = s.ID
		case s.State == events.StateMerged:
			merged[s.ID] = fmt.Sprintf("caller-%d", i)
		default:
			t.Fatalf("a second item is %s: %+v", s.State, s)
		}
	}
	if len(merged) != n-1 {
		t.Fatalf("%d were merged", len(merged))
	}
	it := r.get(first)
	// Of so many the item keeps a bounded list; each is whole in its own record.
	if it.MergedCount != n-1 || len(it.MergedProvenance) == 0 {
		t.Errorf("the item knows of %d merged, %d listed", it.MergedCount, len(it.MergedProvenance))
	}
	for _, m := range it.MergedProvenance {
		if merged[m.ID] != m.Source {
			t.Errorf("item %s is said to come from %q, it came from %q", m.ID, m.Source, merged[m.ID])
		}
	}
	for id, source := range merged {
		if m := r.get(id); m.MergedInto != first || m.Provenance.Source != source {
			t.Fatalf("item %s: %+v", id, m)
		}
	}
	r.worker(workers.Config{}, "email", done)
	var any string
	for any = range merged {
		break
	}
	if it := r.wait(any, events.StateCompleted); it.ID != first {
		t.Errorf("waiting for a merged item gave %s, want %s", it.ID, first)
	}
	runs := 0
	for _, ev := range r.events() {
		if ev.Kind == events.KindRunning {
			runs++
		}
	}
	if runs != 1 {
		t.Errorf("%d executions", runs)
	}
	r.verify()
}

// A dedup key is free again once its item is finished, and an idempotency key
// is not.
func TestKeysAfterTheEnd(t *testing.T) {
	r := inMemory(t, "")
	r.worker(workers.Config{}, "email", done)
	a := r.submit(streamwright.Item{Type: "email", DedupKey: "d"})
	r.wait(a, events.StateCompleted)
	if b := r.submit(streamwright.Item{Type: "email", DedupKey: "d"}); b == a {
		t.Error("a finished item holds its dedup key")
	} else {
		r.wait(b, events.StateCompleted)
	}
	c := r.submit(streamwright.Item{Type: "email", IdempotencyKey: "i"})
	r.wait(c, events.StateCompleted)
	s := must(r.c.Submit(r.ctx, streamwright.Item{Type: "email", IdempotencyKey: "i"}))(t)
	if s.ID != c || !s.Repeat || s.State != events.StateCompleted {
		t.Errorf("got %+v, want the finished %s", s, c)
	}
}

func TestPlainPublish(t *testing.T) {
	r := inMemory(t, "")
	id := must(events.ParseID("01JD3V6YB2M4C9W8ZK5T7QXRNE"))(t).String()
	msg := nats.NewMsg("work.submit.email")
	msg.Data = []byte(`{"to":"a@example.org"}`)
	for k, v := range map[string]string{
		wire.HeaderPriority: "high", wire.HeaderDedupKey: "k", wire.HeaderSource: "shop", wire.HeaderTrigger: "order", wire.HeaderTenant: "acme",
		wire.HeaderLabels: "region=eu,kind=receipt", wire.HeaderMaxAttempts: "7", wire.HeaderTimeout: "9s", wire.HeaderID: id, "X-Mine": "left alone",
	} {
		msg.Header.Set(k, v)
	}
	ack := must(r.js.PublishMsg(r.ctx, msg))(t)
	var it streamwright.WorkItem
	eventually(t, "the published item can be found by its intake sequence", func() (ok bool) {
		var err error
		it, err = r.c.GetByIntake(r.ctx, ack.Sequence)
		return err == nil
	})
	if it.ID != id || it.Priority != 8 || it.DedupKey != "k" || it.Provenance.Source != "shop" || it.Tenant != "acme" || it.Labels["kind"] != "receipt" ||
		it.MaxAttempts != 7 || it.Timeout != events.Millis(9000) || string(it.Params) != `{"to":"a@example.org"}` {
		t.Errorf("got %+v", it)
	}
	// The same again is a repeat: its ack says so, or it is recorded. With other content it
	// is refused.
	want := []string{"duplicate", "id_conflict"}
	if again := must(r.js.PublishMsg(r.ctx, msg))(t); again.Duplicate {
		want = want[1:]
	}
	msg.Data = []byte(`{"to": "b@example.org"}`)
	must(r.js.PublishMsg(r.ctx, msg))(t)
	var codes []string
	eventually(t, "both are answered", func() bool { codes = r.rejections(); return len(codes) == len(want) })
	if !slices.Equal(codes, want) {
		t.Errorf("got %v", codes)
	}
	// Without an id the engine chooses one.
	ack = must(r.js.Publish(r.ctx, "work.submit.email", []byte(`1`)))(t)
	eventually(t, "an item with an id of the engine's", func() bool {
		it, err := r.c.GetByIntake(r.ctx, ack.Sequence)
		return err == nil && it.ID != "" && it.ID != id
	})
	r.verify()
}

// rejections are the codes of the rejected events.
func (r *rig) rejections() (codes []string) {
	r.t.Helper()
	for _, rej := range r.rejected() {
		codes = append(codes, string(rej.Code))
	}
	return codes
}

func (r *rig) rejected() (out []events.Rejected) {
	r.t.Helper()
	for _, ev := range r.events() {
		if ev.Kind == events.KindRejected {
			var rej events.Rejected
			if err := json.Unmarshal(ev.Data, &rej); err != nil {
				r.t.Fatal(err)
			}
			out = append(out, rej)
		}
	}
	return out
}

func TestQueriesReadYourOwnWrites(t *testing.T) {
	r := inMemory(t, "")
	for i := range 200 {
		s := must(r.c.Submit(r.ctx, streamwright.Item{Type: "email", Params: i}))(t)
		if it := r.get(s.ID); it.State != events.StateQueued {
			t.Fatalf("got %+v", it)
		}
	}
	// Another client reads it by the position that it is told.
	other := r.client()
	defer other.Close()
	s := must(r.c.Submit(r.ctx, streamwright.Item{Type: "sms"}))(t)
	other.ObservePosition(s.Position)
	if it := must(other.Get(r.ctx, s.ID))(t); it.Type != "sms" {
		t.Errorf("got %+v", it)
	}
	ahead := r.client()
	defer ahead.Close()
	ahead.ObservePosition("123456789")
	_, err := ahead.Get(withTimeout(t, 300*time.Millisecond), s.ID)
	wantCode(t, err, events.CodePositionAhead)
}

func withTimeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestListPagesAndFilters(t *testing.T) {
	r := inMemory(t, "")
	g := newGate()
	defer close(g.open)
	want := map[string]bool{}
	var items []streamwright.Item
	for i := range 230 {
		it := streamwright.Item{Type: []string{"email", "sms"}[i%2], Tenant: fmt.Sprintf("t%d", i%3), Labels: map[string]string{"n": fmt.Sprint(i % 5)}}
		items = append(items, it)
	}
	for i, s := range must(r.c.SubmitMany(r.ctx, items))(t) {
		if s.Error != nil {
			t.Fatal(s.Error)
		}
		if items[i].Type == "email" && items[i].Tenant == "t1" && items[i].Labels["n"] == "2" {
			want[s.ID] = true
		}
	}
	got := map[string]bool{}
	for it, err := range r.c.All(r.ctx, streamwright.Filter{State: "queued", Type: "email", Tenant: "t1", Label: "n=2", Limit: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		if got[it.ID] {
			t.Errorf("item %s is listed twice", it.ID)
		}
		got[it.ID] = true
	}
	if fmt.Sprint(sortedKeys(got)) != fmt.Sprint(sortedKeys(want)) {
		t.Errorf("got %v, want %v", sortedKeys(got), sortedKeys(want))
	}
	n := 0
	for _, err := range r.c.All(r.ctx, streamwright.Filter{Limit: 100}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != len(items) {
		t.Errorf("%d of %d listed", n, len(items))
	}
	_, err := r.c.List(r.ctx, streamwright.Filter{State: "done"})
	wantCode(t, err, events.CodeBadRequest, "done")
	_, err = r.c.List(r.ctx, streamwright.Filter{Cursor: "made up"})
	wantCode(t, err, events.CodeBadRequest)
}

func TestTailFiltersAndResumes(t *testing.T) {
	r := inMemory(t, "")
	r.worker(workers.Config{}, "email", done)
	r.worker(workers.Config{}, "sms", func(context.Context, *workers.RawItem) (any, error) {
		return nil, workers.Permanent(fmt.Errorf("no such number"))
	})
	all := make(chan streamwright.Event, 1000)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(begun)
		ended <- r.c.Tail(ctx, streamwright.TailOptions{Types: []string{"sms"}, Kinds: []streamwright.Kind{streamwright.KindDead}, FromSeq: 1}, func(ev streamwright.Event) error {
			all <- ev
			return nil
		})
	}()
	<-begun
	var dead []string
	for range 3 {
		r.wait(r.submit(streamwright.Item{Type: "email"}), events.StateCompleted)
		id := r.submit(streamwright.Item{Type: "sms"})
		r.wait(id, events.StateDead)
		dead = append(dead, id)
	}
	var second events.Seq
	for i, id := range dead {
		ev := recv(t, "a dead event", all)
		if ev.ID != id || ev.Type != "sms" || ev.Kind != events.KindDead {
			t.Errorf("event %d: %+v", i, ev)
		}
		if i == 1 {
			second = ev.Seq
		}
	}
	cancel()
	recv(t, "the tail's end", ended)
	// Resumed behind the second, only the third comes.
	end := fmt.Errorf("enough")
	err := r.c.Tail(r.ctx, streamwright.TailOptions{Kinds: []streamwright.Kind{streamwright.KindDead}, FromSeq: second + 1}, func(ev streamwright.Event) error {
		if ev.ID != dead[2] {
			t.Errorf("got %+v", ev)
		}
		return end
	})
	if err != end {
		t.Error(err)
	}
	// One item's events are its history.
	var kinds []string
	err = r.c.Tail(r.ctx, streamwright.TailOptions{ID: dead[0], FromSeq: 1}, func(ev streamwright.Event) error {
		if kinds = append(kinds, ev.Kind.String()); ev.Kind == events.KindDead {
			return end
		}
		return nil
	})
	if err != end || fmt.Sprint(kinds) != fmt.Sprint(r.kinds(dead[0])) {
		t.Errorf("got %v %v, want %v", kinds, err, r.kinds(dead[0]))
	}
	// A plain subscriber sees the same, filtered by the server.
	sub := must(r.nc.SubscribeSync("work.event.*.sms.dead"))(t)
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	id := r.submit(streamwright.Item{Type: "sms"})
	msg := must(sub.NextMsg(patience))(t)
	var ev struct{ ID, Kind string }
	if err := json.Unmarshal(msg.Data, &ev); err != nil || ev.ID != id {
		t.Errorf("got %s, %v", msg.Data, err)
	}
}

// A plain JetStream consumer can follow the log from any position.
func TestPlainConsumerOfTheLog(t *testing.T) {
	r := inMemory(t, "")
	id := r.submit(streamwright.Item{Type: "email"})
	cons := must(r.admin().OrderedConsumer(r.ctx, "WORK_EVENTS_0", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"work.frame.*"}}))(t)
	for {
		msg := must(cons.Next(jetstream.FetchMaxWait(patience)))(t)
		for line := range bytes.Lines(msg.Data()) {
			var ev struct{ Kind, ID string }
			if err := json.Unmarshal(line, &ev); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if ev.Kind == "queued" && ev.ID == id {
				return
			}
		}
	}
}
