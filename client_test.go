package streamwright_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { leaks.Check(m) }

func wantCode(t *testing.T, err error, code events.Code, says ...string) {
	t.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q does not say %q", err, s)
		}
	}
}

func TestSubmitChoosesAnIDAndReadsItsOwnWrites(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	var last streamwright.Submitted
	for range 12 {
		s, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: map[string]int{"to": 1}, Priority: 8, Delay: time.Hour})
		if err != nil || s.State != events.StateQueued {
			t.Fatalf("got %+v, %v", s, err)
		}
		if s.ID <= last.ID {
			t.Errorf("id %s does not rise above %s", s.ID, last.ID)
		}
		last = s
	}
	it, err := c.Get(ctx, last.ID)
	if err != nil || it.Priority != 8 || string(it.Params) != `{"to":1}` {
		t.Fatalf("got %+v, %v", it, err)
	}
	var asked wire.Get
	if err := json.Unmarshal(e.Requests(wire.APIGet)[0], &asked); err != nil || asked.MinPosition != last.Position || c.Position() != last.Position {
		t.Errorf("asked for %+v (%v), position is %q, want %q", asked, err, c.Position(), last.Position)
	}
	c.ObservePosition("9") // positions are numbers, not text
	c.ObservePosition("nonsense")
	if c.Position() != last.Position {
		t.Errorf("position went back to %q", c.Position())
	}
}

func TestSubmitIsRepeatedWithTheSameID(t *testing.T) {
	e := start(t)
	var retried []string
	c := connect(t, e, streamwright.WithTryTimeout(time.Second), streamwright.OnRetry(func(op string, err error) {
		retried = append(retried, op+" "+string(events.CodeOf(err)))
	}))
	e.Next(wire.APISubmit, faultproxy.Lose, faultproxy.Refuse(events.Refuse(events.CodeUnavailable, "no owner")), faultproxy.Refuse(events.Refuse(events.CodeNotOwner, "no longer")))
	s, err := c.Submit(testContext(t), streamwright.Item{Type: "email"})
	if n := e.count(); err != nil || !s.Repeat || n != 1 {
		t.Fatalf("got %+v, %v, %d items", s, err, n)
	}
	if !slices.Equal(retried, []string{"submit timeout", "submit unavailable", "submit not_owner"}) {
		t.Errorf("retried: %q", retried)
	}
}

func TestSubmitRefusals(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e, streamwright.WithInlineParams(1<<20), streamwright.WithMaxDocument(1<<20)), testContext(t)
	for name, tc := range map[string]struct {
		item streamwright.Item
		code events.Code
	}{
		"by the engine":    {streamwright.Item{Type: "E Mail"}, events.CodeBadType},
		"priority":         {streamwright.Item{Type: "email", Priority: 12}, events.CodeBadPriority},
		"params":           {streamwright.Item{Type: "email", Params: func() {}}, events.CodeBadParams},
		"raw params":       {streamwright.Item{Type: "email", Params: json.RawMessage("{")}, events.CodeBadParams},
		"negative delay":   {streamwright.Item{Type: "email", Delay: -1}, events.CodeBadTime},
		"too large":        {streamwright.Item{Type: "email", Params: strings.Repeat("x", 2<<20)}, events.CodeTooLarge},
		"params too large": {streamwright.Item{Type: "email", Params: strings.Repeat("x", events.MaxParamsBytes)}, events.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Submit(ctx, tc.item)
			wantCode(t, err, tc.code)
		})
	}
	e.Next(wire.APISubmit, faultproxy.Reply("what?"))
	_, err := c.Submit(ctx, streamwright.Item{Type: "email"})
	wantCode(t, err, events.CodeInternal, "another version")
}

func TestSubmitEndsWithItsContext(t *testing.T) {
	url := natscluster.Alone(t, 0).ClientURL() // a server, but no engine
	c, err := streamwright.Connect(testContext(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s, err := c.Submit(ctx, streamwright.Item{Type: "email"})
	wantCode(t, err, events.CodeTimeout, "no engine answers on work.api.*", "engine serve", url)
	if !errors.Is(err, context.DeadlineExceeded) || s.ID == "" {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestQueriesRunOutOfPatience(t *testing.T) {
	c, err := streamwright.Connect(testContext(t), natscluster.Alone(t, 0).ClientURL(), streamwright.WithPatience(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Engine().Stats(testContext(t))
	wantCode(t, err, events.CodeUnavailable, "engine serve")
	_, err = c.Engine().Verify(testContext(t), nil)
	wantCode(t, err, events.CodeUnavailable, "engine serve")
	err = c.Tail(testContext(t), streamwright.TailOptions{}, nil)
	wantCode(t, err, events.CodeUnavailable, "engine serve", "engine serve")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = c.Publish(ctx, streamwright.Item{Type: "email"})
	wantCode(t, err, events.CodeTimeout, "work.submit.email")
}

func TestConnectSaysWhatToDo(t *testing.T) {
	_, err := streamwright.Connect(testContext(t), "nats://bob:secret@127.0.0.1:1")
	wantCode(t, err, events.CodeUnavailable, "nats://***@127.0.0.1:1", "engine serve")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in %q", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = streamwright.Connect(ctx, "nats://"+l.Addr().String())
	wantCode(t, err, events.CodeTimeout, l.Addr().String())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A server that hangs up on a connection that is being made, as it does while it reads its
// accounts again, is tried again.
func TestConnectAgainAfterAHangup(t *testing.T) {
	e := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for i := 0; ; i++ {
			from, err := l.Accept()
			if err != nil {
				return
			}
			if i < 2 {
				_ = from.Close()
				continue
			}
			to, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "nats://"))
			if err != nil {
				t.Error(err)
				_ = from.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
				all.Go(func() {
					_, _ = io.Copy(way[0], way[1])
					_, _ = from.Close(), to.Close()
				})
			}
		}
	})
	c, err := streamwright.Connect(testContext(t), "nats://"+l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"nats://h:4222":                  "nats://h:4222",
		"nats://u:p@h:4222, tls://t@g:1": "nats://***@h:4222,tls://***@g:1",
		"u:p@h":                          "***@h",
	} {
		if got := streamwright.Redact(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestPublish(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	item := streamwright.Item{Type: "email", Params: []int{1}, Labels: map[string]string{"k": "v"}}
	p, err := c.Publish(ctx, item)
	if err != nil || p.IntakeSeq == 0 || p.Duplicate {
		t.Fatalf("got %+v, %v", p, err)
	}
	got, err := c.GetByIntake(ctx, p.IntakeSeq)
	if err != nil || got.ID != p.ID || got.Type != "email" || string(got.Params) != "[1]" || got.Labels["k"] != "v" {
		t.Errorf("it has become %+v, %v", got, err)
	}
	item.ID = p.ID
	again, err := c.Publish(ctx, item)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.GetByIntake(ctx, again.IntakeSeq); err != nil || got.ID != p.ID || e.count() != 1 {
		t.Errorf("its repeat, %+v, has become %+v, %v", again, got, err)
	}
	_, err = c.Publish(ctx, streamwright.Item{Type: "a.b"})
	wantCode(t, err, events.CodeBadType)
	_, err = c.Publish(ctx, streamwright.Item{Type: "email", Source: "a\nb"})
	wantCode(t, err, events.CodeBadHeader)
}

func TestWaitFollowsMergedItems(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	first, err := c.Submit(ctx, streamwright.Item{Type: "email", DedupKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Submit(ctx, streamwright.Item{Type: "email", DedupKey: "k"})
	if err != nil || second.MergedInto != first.ID {
		t.Fatalf("got %+v, %v", second, err)
	}
	// The time of the first request is over before it has ended.
	e.Next(wire.APIWait, faultproxy.Reply(fmt.Sprintf(`{"ended":[],"pending":[{"id":%q,"state":"queued","merged_into":%q}]}`, second.ID, first.ID)))
	got := make(chan streamwright.WorkItem, 1)
	go func() {
		it, err := c.Wait(ctx, second.ID)
		if err != nil {
			t.Error(err)
		}
		got <- it
	}()
	e.Await(wire.APIWait, 2)
	e.work("email", returns(map[string]int{"sent": 3}, nil))
	it := <-got
	res, err := streamwright.Result[struct{ Sent int }](it)
	if it.ID != first.ID || err != nil || res.Sent != 3 {
		t.Errorf("got %+v, %+v, %v", it, res, err)
	}
	_, err = streamwright.Result[[]int](it)
	if err == nil || !strings.Contains(err.Error(), it.ID) {
		t.Errorf("got %v", err)
	}
}

// A wait for many makes several requests, and returns the items in the order asked.
func TestWaitForMany(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	ids := []string{submit(t, c).ID, submit(t, c).ID, submit(t, c).ID}
	order := func(w streamwright.Waited) (got []string) {
		for _, it := range w.Ended {
			got = append(got, it.ID)
		}
		return got
	}
	if _, _, err := c.Cancel(ctx, ids[2], ""); err != nil {
		t.Fatal(err)
	}
	if w, err := c.WaitAny(ctx, ids); err != nil || !slices.Equal(order(w), ids[2:]) || len(w.Pending) != 2 {
		t.Errorf("any: %+v, %v", w, err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	w, err := c.WaitAll(short, ids)
	wantCode(t, err, events.CodeTimeout)
	if !slices.Equal(order(w), ids[2:]) || len(w.Pending) != 2 || w.Pending[0].ID != ids[0] || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 of 3 items have not ended") {
		t.Errorf("all, in too short a time: %+v, %v", w, err)
	}
	// An answer in the middle of the wait: one has ended, and is not asked for again.
	asked := len(e.Requests(wire.APIWait))
	e.Next(wire.APIWait, faultproxy.Reply(fmt.Sprintf(`{"ended":[{"id":%q,"state":"cancelled"}],"pending":[{"id":%q,"state":"queued"},{"id":%q,"state":"queued"}]}`, ids[2], ids[0], ids[1])))
	got := make(chan streamwright.Waited, 1)
	go func() {
		w, err := c.WaitAll(ctx, ids)
		if err != nil {
			t.Error(err)
		}
		got <- w
	}()
	e.Await(wire.APIWait, asked+2)
	e.work("email", returns(nil, nil))
	if w := <-got; !slices.Equal(order(w), ids) || len(w.Pending) != 0 {
		t.Errorf("all: %+v", w)
	}
	if last := string(e.Requests(wire.APIWait)[asked+1]); strings.Contains(last, ids[2]) {
		t.Errorf("asked again for what has ended: %s", last)
	}
	_, err = c.WaitAny(ctx, append(ids, "01J00000000000000000000000"))
	wantCode(t, err, events.CodeNotFound)
}

// A Wait whose time is over says so, and how the item is: the engine has answered.
func TestWaitEndsWithItsContext(t *testing.T) {
	e := start(t)
	c := connect(t, e)
	sub := submit(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Wait(ctx, sub.ID)
	if want := "item " + sub.ID + " has not ended in the time given for it: it is queued"; err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, context.DeadlineExceeded) || events.CodeOf(err) != events.CodeTimeout {
		t.Errorf("got %v, want %s", err, want)
	}
	ctx, cancel = context.WithCancel(t.Context())
	asked := len(e.Requests(wire.APIWait))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Wait(ctx, sub.ID)
		ended <- err
	}()
	e.Await(wire.APIWait, asked+1)
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "stopped waiting for item "+sub.ID) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOutcomeErrors(t *testing.T) {
	for _, c := range []struct {
		item wire.Item
		says string
	}{
		{wire.Item{ID: "X", State: events.StateDead, Attempt: 3, Error: &wire.ItemError{Message: "no route", Code: "error"}}, "item X is dead after 3 attempts: no route (error)"},
		{wire.Item{ID: "X", State: events.StateCancelled, Reason: "superseded"}, "item X is cancelled: superseded"},
		{wire.Item{ID: "X", State: events.StateQueued}, "item X is queued, not finished: wait for it first"},
	} {
		_, err := streamwright.Result[int](c.item)
		var o *streamwright.OutcomeError
		if !errors.As(err, &o) || err.Error() != c.says {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
}

// A failed item has an "error" field of its own: it is no refusal.
func TestAFailedItemIsNoRefusal(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	e.work("email", returns(nil, workers.Permanent(errors.New("boom"))))
	s := submit(t, c)
	if it, err := c.Wait(ctx, s.ID); err != nil || it.Error == nil || it.Error.Message != "boom" {
		t.Errorf("got %+v, %v", it, err)
	}
	_, err := c.Get(ctx, "01JD3V6YB2M4C9W8ZK5T7QXRNE")
	wantCode(t, err, events.CodeNotFound)
}

func TestTheRestOfTheSurface(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	worker := e.work("sms", func(_ context.Context, it *workers.RawItem) (any, error) {
		it.Log(workers.LevelWarn, "mind the gap")
		return nil, nil
	})
	text, err := c.Submit(ctx, streamwright.Item{Type: "sms"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, text.ID); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 5 {
		ids = append(ids, submit(t, c).ID)
	}
	var listed []string
	for it, err := range c.All(ctx, streamwright.Filter{State: "queued", Limit: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, it.ID)
	}
	slices.Reverse(listed) // the newest is first
	if !slices.Equal(listed, ids) || len(e.Requests(wire.APIList)) != 3 {
		t.Errorf("listed %v in %d pages, want %v", listed, len(e.Requests(wire.APIList)), ids)
	}
	if h, err := c.History(ctx, text.ID); err != nil || len(h) != 5 || h[2].Kind != events.KindClaimed {
		t.Errorf("history: %+v, %v", h, err)
	}
	need.Eventually(t, "the log", func() bool { // it is kept beside the run's end
		l, err := c.Logs(ctx, text.ID, 10)
		return err == nil && len(l) == 1 && l[0].Message == "mind the gap"
	})
	if err := c.Reschedule(ctx, ids[0], streamwright.RescheduleOptions{Priority: 9, Now: true}); err != nil {
		t.Error(err)
	}
	if it, err := c.Get(ctx, ids[0]); err != nil || it.Priority != 9 {
		t.Errorf("rescheduled: %+v, %v", it, err)
	}
	wantCode(t, c.Reschedule(ctx, ids[0], streamwright.RescheduleOptions{}), events.CodeBadRequest)
	if st, was, err := c.Cancel(ctx, ids[0], "because"); err != nil || st != events.StateCancelled || was {
		t.Errorf("cancel: %v %v %v", st, was, err)
	}
	if s, err := c.Engine().Stats(ctx); err != nil || len(s.Types) != 2 || s.Types[0].Type != "email" || s.Types[0].States["queued"] != 4 {
		t.Errorf("stats: %+v, %v", s, err)
	}
	if s, err := c.Types().List(ctx); err != nil || len(s) != 2 {
		t.Errorf("types: %+v, %v", s, err)
	}
	if s, err := c.Types().Configure(ctx, "email", streamwright.Settings{Capacity: new(7)}); err != nil || s.Settings.Capacity != 7 || s.Source != "api" {
		t.Errorf("configure: %+v, %v", s, err)
	}
	if err := c.Workers().Drain(ctx, string(worker.ID())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-worker.Drained():
	case <-ctx.Done():
		t.Error("the worker is not told to drain")
	}
	if w, err := c.Workers().List(ctx); err != nil || len(w) != 1 || w[0].Worker != string(worker.ID()) || w[0].Status != wire.WorkerDraining {
		t.Errorf("workers: %+v, %v", w, err)
	}
	if i, err := c.Engine().Info(ctx); err != nil || i.Version != embedded.Version {
		t.Errorf("info: %+v, %v", i, err)
	}
	for endpoint, prove := range map[string]func(context.Context, func(streamwright.Proof)) (streamwright.Proof, error){
		wire.APIVerify: c.Engine().Verify, wire.APIRebuild: c.Engine().Rebuild,
	} {
		if p, err := prove(ctx, nil); err != nil || !p.Done || !p.Equal || p.Events == 0 {
			t.Errorf("%s: %+v, %v", endpoint, p, err)
		}
		// A small log is read before there is progress to tell of.
		e.Next(endpoint, faultproxy.Reply(`{"events":100,"total":300}`, `{"events":200,"total":300}`, `{"done":true,"events":300,"total":300,"equal":true}`))
		var steps []uint64
		p, err := prove(ctx, func(p streamwright.Proof) { steps = append(steps, p.Events) })
		if err != nil || p.Events != 300 || !slices.Equal(steps, []uint64{100, 200}) {
			t.Errorf("%s: %+v, %v, %v", endpoint, p, err, steps)
		}
	}
}

// A server whose machine has lost power says nothing: the client must not wait for it as
// long as the NATS client does by default.
func TestConnectNoticesASilentServer(t *testing.T) {
	e := start(t)
	if o := connect(t, e).Conn().Opts; o.PingInterval*time.Duration(o.MaxPingsOut+1) > 15*time.Second {
		t.Errorf("a ping each %s, %d unanswered: it takes longer than 15 s", o.PingInterval, o.MaxPingsOut)
	}
	own := connect(t, e, streamwright.WithNATS(nats.PingInterval(time.Hour)))
	if got := own.Conn().Opts.PingInterval; got != time.Hour {
		t.Errorf("a ping each %s, and the caller has asked for one an hour", got)
	}
}

// A list that may lack items ends with an error, behind those that it has.
func TestStaleListsEndWithAnError(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	const stale = `"stale":"as of position 7: this node may lack what others have accepted (why)"`
	e.Next(wire.APIList, faultproxy.Reply(`{"items":[{"id":"a"}],"next_cursor":"c",`+stale+`}`), faultproxy.Reply(`{"items":[{"id":"b"}]}`))
	var listed []string
	var last error
	for it, err := range c.All(ctx, streamwright.Filter{}) {
		if last = err; err == nil {
			listed = append(listed, it.ID)
		}
	}
	if !slices.Equal(listed, []string{"a", "b"}) {
		t.Errorf("listed %v", listed)
	}
	wantCode(t, last, events.CodeUnavailable, "position 7")

	e.Next(wire.APITypes, faultproxy.Reply(`{"types":[{"type":"email"}],`+stale+`}`))
	types, err := c.Types().List(ctx)
	wantCode(t, err, events.CodeUnavailable, "position 7")
	e.Next(wire.APISchedules, faultproxy.Reply(`{"schedules":[{"name":"nightly"}],`+stale+`}`))
	schedules, err := c.Schedules().List(ctx)
	wantCode(t, err, events.CodeUnavailable, "position 7")
	e.Next(wire.APINamespaces, faultproxy.Reply(`{"namespaces":[{"name":"acme"}],`+stale+`}`))
	namespaces, err := c.Namespaces().List(ctx)
	wantCode(t, err, events.CodeUnavailable, "position 7")
	if len(types) != 1 || len(schedules) != 1 || len(namespaces) != 1 {
		t.Errorf("listed %v, %v and %v", types, schedules, namespaces)
	}
}
