package bridge_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/bridge"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// cutter is a proxy that passes requests on, and breaks the connection off once
// the first bytes of a reply have come.
func cutter(t *testing.T, to string) (addr string, cut <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{}, 16)
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { passAndCut(in, to); done <- struct{}{} })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String(), done
}

func passAndCut(in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(out, in) })
	_, _ = out.Read(make([]byte, 1))
	_ = in.Close()
	_ = out.Close()
	wg.Wait()
}

// A poll whose reply was lost on its way is repeated, and has the same items at
// once, with their tokens.
func TestAPollIsRepeatedWhenItsReplyWasLost(t *testing.T) {
	e := startEngine(t, embedded.Options{Config: leases(10*time.Minute, "step")}) // nothing comes back by its lease
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 3})
	ids := map[string]bool{e.submit(t, "step", `{"n":1}`): true, e.submit(t, "step", `{"n":2}`): true}
	proxy, cut := cutter(t, e.HTTP())
	ask := wire.Poll{Session: w.session, PollID: "1", Wait: ms(20 * time.Second)}
	body, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	// The items are there, but the poll may find them one by one.
	need.Eventually(t, "both items have been returned", func() bool {
		resp, err := e.http.Post("http://"+proxy+w.path("poll"), "application/json", bytes.NewReader(body))
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal("the reply has come")
		}
		<-cut
		got := w.poll(ask)
		for range 3 {
			if again := w.poll(ask); !sameItems(again, got) {
				t.Fatalf("repeated: %+v, not %+v", again, got)
			}
		}
		for _, it := range got.Items {
			if !ids[it.ID] || it.Attempt != 1 || string(it.Params) == "" || it.Deadline.IsZero() {
				t.Fatalf("repeated: %+v", it)
			}
			delete(ids, it.ID)
			w.ok(complete(it, `1`))
			if kinds := strings.Join(e.kinds(t, it.ID), " "); kinds != "created queued claimed running completed" {
				t.Errorf("history: %s", kinds)
			}
		}
		return len(ids) == 0
	})
}

func sameItems(a, b wire.Polled) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// What a poll has returned is returned again until the worker shows that it has
// it, and never what it has ended.
func TestARepeatIsOverOnceItHasCome(t *testing.T) {
	e := startEngine(t, embedded.Options{Config: leases(10*time.Minute, "step")})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 3})
	now := ms(0)
	next := func(id string) wire.PolledItem {
		t.Helper()
		e.submit(t, "step", `1`)
		got := w.poll(wire.Poll{Max: 1, PollID: id})
		if len(got.Items) != 1 {
			t.Fatalf("polled %+v", got)
		}
		return got.Items[0]
	}
	again := func(id string) int {
		t.Helper()
		return len(w.poll(wire.Poll{Max: 1, PollID: id, Wait: now}).Items)
	}
	it := next("1")
	if again("1") != 1 {
		t.Error("nothing is repeated")
	}
	w.beat(it)
	if again("1") != 0 {
		t.Error("repeated behind a heartbeat")
	}
	w.ok(complete(it, `1`))
	it = next("2")
	w.ok(wire.Report{ID: it.ID, Token: it.Token, Event: wire.ReportProgress, ReportFlow: wire.ReportFlow{Percent: 1}})
	if again("2") != 0 {
		t.Error("repeated behind a report")
	}
	w.ok(complete(it, `1`))
	it = next("3")
	if again("4") != 0 || again("3") != 0 {
		t.Error("repeated behind another poll")
	}
	w.ok(complete(it, `1`))
	it = next("")
	if again("") != 0 {
		t.Error("a poll without a name is repeated")
	}
	w.ok(complete(it, `1`))
	it = next("5")
	if _, _, err := e.client.Cancel(testContext(t), it.ID, "no more"); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "what was cancelled is not returned again", func() bool { return again("5") == 0 })
	status, p, err := e.ask(testContext(t), http.MethodPost, w.path("poll"), wire.Poll{Session: w.session, PollID: strings.Repeat("x", bridge.MaxPollID+1)}, nil)
	if err != nil || status != 400 || p.Code != events.CodeBadRequest {
		t.Errorf("a name that is too long: %d %+v %v", status, p, err)
	}
}

// A repeat that comes while its poll is still open on a connection that is dead
// has what that poll gets.
func TestARepeatTakesOver(t *testing.T) {
	e := startEngine(t, embedded.Options{Config: leases(10*time.Minute, "step")})
	w := e.worker(t, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
	ask := wire.Poll{Session: w.session, PollID: "1", Wait: ms(20 * time.Second)}
	first := make(chan int, 1)
	go func() {
		status, _, _ := e.ask(testContext(t), http.MethodPost, w.path("poll"), ask, nil)
		first <- status
	}()
	need.Eventually(t, "the first poll is open", func() bool { return e.waiting(t, "step") == 1 })
	second := make(chan wire.Polled, 1)
	go func() { second <- w.poll(ask) }()
	if status := <-first; status != http.StatusConflict {
		t.Errorf("the first poll ended with %d", status)
	}
	id := e.submit(t, "step", `1`)
	if got := <-second; len(got.Items) != 1 || got.Items[0].ID != id {
		t.Errorf("the repeat returned %+v", got)
	}
}

// Beyond the bound of what is held a repeat brings the items back by a release.
func TestHeldBatchesAreBounded(t *testing.T) {
	b, e := bareWith(t, func(c *bridge.Config) { c.MaxHeldBytes = 4000 }) // room for one of two
	ctx := testContext(t)
	var regs []wire.WorkerSession
	var got []wire.Polled
	for range 2 {
		reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{"step"}, Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		e.submit(t, "step", `"`+strings.Repeat("x", 3000)+`"`)
		out, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session, PollID: "1"})
		if err != nil || len(out.Items) != 1 {
			t.Fatalf("polled %+v %v", out, err)
		}
		regs, got = append(regs, reg), append(got, out)
	}
	for _, i := range []int{1, 0} {
		out, err := b.Poll(ctx, regs[i].Worker, wire.Poll{Session: regs[i].Session, PollID: "1"})
		if err != nil || len(out.Items) != 1 || out.Items[0].ID != got[i].Items[0].ID || out.Items[0].Attempt != 1 {
			t.Fatalf("worker %d repeated: %+v %v, not %+v", i, out, err, got[i])
		}
	}
	need.Eventually(t, "what was given up has been released, and run again", func() bool {
		return strings.HasSuffix(strings.Join(e.kinds(t, got[0].Items[0].ID), " "), "released claimed")
	})
	if kinds := strings.Join(e.kinds(t, got[1].Items[0].ID), " "); strings.Contains(kinds, "released") {
		t.Errorf("history of what was held: %s", kinds)
	}
}

// What has arrived for slow clients is bounded over all of them; what is beyond
// goes back, and comes once there is room. What earlier runs have left counts as params do.
func TestWhatHasArrivedIsBounded(t *testing.T) {
	slow(t)
	t.Parallel()
	b, e := bareWith(t, func(c *bridge.Config) { c.MaxLoadedBytes = 10_000 })
	ctx := testContext(t)
	const items = 8
	text := json.RawMessage(`"` + strings.Repeat("x", 4000) + `"`)
	for range items {
		e.submit(t, "step", string(text))
		e.submit(t, "saved", `1`)
	}
	for _, typ := range []string{"step", "saved"} {
		reg, err := b.Register(ctx, wire.WorkerRegistration{Types: []string{typ}, Slots: items})
		if err != nil {
			t.Fatal(err)
		}
		for done := 0; done < items; {
			out, err := b.Poll(ctx, reg.Worker, wire.Poll{Session: reg.Session})
			if err != nil || len(out.Items) == 0 {
				t.Fatalf("polled %d items: %v", len(out.Items), err)
			}
			large := 0
			for _, it := range out.Items {
				reports := []wire.Report{complete(it, `1`)}
				if len(it.Params)+len(it.Checkpoint) > 4000 {
					large++
					done++
				} else {
					reports = []wire.Report{
						{ID: it.ID, Token: it.Token, Event: wire.ReportCheckpoint, ReportFlow: wire.ReportFlow{Checkpoint: text}},
						{ID: it.ID, Token: it.Token, Event: wire.ReportFail, Error: "x", RetryAfter: events.Millis(1)},
					}
				}
				replies, err := b.Report(ctx, reg.Worker, reg.Session, reports)
				if err != nil || len(replies) != len(reports) || !replies[0].OK || !replies[len(replies)-1].OK || typ == "step" && it.Attempt != 1 {
					t.Fatalf("%+v %+v %v", it, replies, err)
				}
			}
			if large > 2 {
				t.Fatalf("polled %d large items", large)
			}
		}
	}
}
