package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

const (
	slots = 8 // of a raw worker
	lost  = 5 // of a thousand of its runs outlast their lease
)

// rawWorker speaks the worker's side of the protocol by hand, one report a
// request, and records each.
type rawWorker struct {
	client
	me wire.Register

	mu       sync.Mutex // guards inFlight
	inFlight map[string]wire.RunRef
}

func (l *load) rawWorker(n int) {
	w := &rawWorker{
		client: *l.client(n), inFlight: map[string]wire.RunRef{},
		me: wire.Register{Worker: fmt.Sprintf("raw-%d", n), Session: ulid.Make().String(), Types: []string{"raw"}, Slots: slots},
	}
	l.wg.Go(func() {
		defer w.nc.Close()
		w.run()
	})
}

// run receives items until the load ends.
func (w *rawWorker) run() {
	var runs sync.WaitGroup
	defer runs.Wait()
	sub, err := w.nc.SubscribeSync(wire.Default.RunsOf(w.me.Session))
	if err != nil {
		w.l.t.Error(err)
		return
	}
	runs.Go(func() {
		for w.l.work.Err() == nil {
			w.greet()
			pause(w.l.work, time.Second)
		}
	})
	for {
		msg, err := sub.NextMsgWithContext(w.l.work)
		if err != nil {
			if w.l.work.Err() == nil {
				w.l.t.Error(err)
			}
			return
		}
		var items []wire.Assigned
		if err := json.Unmarshal(msg.Data, &items); err != nil {
			w.l.t.Errorf("%s: %v", msg.Data, err)
		}
		for _, it := range items {
			seed := w.rng.IntN(1000)
			runs.Go(func() { w.handle(it, seed) })
		}
	}
}

// greet registers, and says what runs.
func (w *rawWorker) greet() {
	var reply wire.Registered
	if _, err := w.ask("register", w.me, &reply); err != nil {
		return
	}
	w.mu.Lock()
	beat := wire.Heartbeat{Register: w.me}
	for _, held := range w.inFlight {
		beat.InFlight = append(beat.InFlight, held)
	}
	w.mu.Unlock()
	var answer wire.HeartbeatReply
	_, _ = w.ask("heartbeat", beat, &answer)
}

// handle runs an item. The heartbeats name it meanwhile, except for the very few that are
// to outlast their lease.
func (w *rawWorker) handle(it wire.Assigned, seed int) {
	w.l.dispatched(it.Token, w.me.Worker)
	if seed >= lost {
		w.mu.Lock()
		w.inFlight[it.Token] = wire.RunRef{ID: it.ID, Token: it.Token}
		w.mu.Unlock()
	}
	w.work(wire.Report{ID: it.ID, Token: it.Token, Worker: w.me.Worker, Session: w.me.Session}, seed)
	w.mu.Lock()
	delete(w.inFlight, it.Token)
	w.mu.Unlock()
}

// work reports the start of an item's run, runs it for a moment and reports its end. Few
// runs fail. What is not told of its end waits for the end of its lease.
func (w *rawWorker) work(r wire.Report, seed int) {
	r.Event = wire.ReportStart
	if !w.report(opStart, r, 2) {
		return
	}
	w.l.runs.Add(1)
	switch {
	case seed < lost:
		pause(w.l.work, 4*time.Second)
	case seed < 500:
		pause(w.l.work, time.Duration(seed%20)*time.Millisecond)
	}
	op := opComplete
	r.Event, r.Result = wire.ReportComplete, json.RawMessage(`{"by":"`+w.me.Worker+`"}`)
	if seed%20 == 1 {
		op, r.Event, r.Result, r.Error = opFail, wire.ReportFail, nil, "it was its turn to fail"
	}
	w.report(op, r, 30)
}

// report asks until there is an answer, at most so many times, and tells whether it was
// accepted.
func (w *rawWorker) report(op string, r wire.Report, tries int) bool {
	in := input{op: op, part: w.l.partOf(r.ID), id: r.ID, token: r.Token}
	for range tries {
		var reply []wire.Reported
		call := w.l.now()
		out, err := w.ask("report", []wire.Report{r}, &reply)
		if err == nil && out.refused == "" {
			if len(reply) != 1 {
				w.l.t.Errorf("one report is answered by %d", len(reply))
				return false
			}
			if !reply[0].OK {
				code := reply[0].Error.Code
				if out.refused = string(code); !definite[code] {
					out, err = unknown, errors.New(out.refused)
				}
			}
		}
		if !errors.Is(err, errNothing) {
			w.l.record(w.n, in, call, out)
		}
		if err == nil {
			return out.refused == ""
		}
		pause(context.Background(), 100*time.Millisecond)
	}
	return false
}

// libWorker is a worker of package workers.
func (l *load) libWorker(n int) *workers.Worker {
	nc, name := l.c.connect(), fmt.Sprintf("lib-%d", n)
	w, err := workers.New(nc, workers.Config{ID: events.WorkerID(name), Concurrency: 16, DrainTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.t.Fatal(err)
	}
	workers.HandleRaw(w, "lib", func(ctx context.Context, it *workers.RawItem) (any, error) {
		l.runs.Add(1)
		l.dispatched(fmt.Sprint(it.ID, " attempt ", it.Attempt), name)
		pause(ctx, 2*time.Millisecond)
		return "done", context.Cause(ctx)
	})
	l.wg.Go(func() {
		defer nc.Close()
		if err := w.Run(l.work); err != nil && !errors.Is(err, context.Canceled) {
			l.t.Errorf("worker %d: %v", n, err)
		}
	})
	return w
}

// libClient submits by the root package, as users do, and measures how long the
// longest submission took. Nothing that it does may fail.
func (l *load) libClient() {
	var c *streamwright.Client
	urls := strings.Split(l.c.urls(outside), ",")
	c, err := streamwright.Connect(l.ctx, strings.Join(urls, ","), streamwright.WithTryTimeout(tryTimeout), streamwright.WithConnection(l.c.logins.Settings(logins.All)), streamwright.WithNATS(nats.IgnoreDiscoveredServers()))
	if err != nil {
		l.t.Fatal(err)
	}
	l.wg.Go(func() {
		defer c.Close()
		for l.ctx.Err() == nil {
			began := time.Now()
			got, err := c.Submit(l.ctx, streamwright.Item{Type: "lib", Params: 1})
			took := time.Since(began)
			l.mu.Lock()
			switch {
			case err == nil:
				l.accepted[got.ID], l.types[got.ID] = true, "lib"
				l.slowest = max(l.slowest, took)
			case l.ctx.Err() == nil:
				l.libErrs = append(l.libErrs, err)
			}
			l.mu.Unlock()
			pause(l.ctx, 10*time.Millisecond)
		}
	})
}

// start begins the load: clients and workers of both kinds.
func (l *load) start() {
	for n := range 4 {
		c := l.client(n)
		l.wg.Go(c.run)
	}
	l.libClient()
	for n := range 2 {
		l.rawWorker(10 + n)
		l.libWorker(20 + n)
	}
}
