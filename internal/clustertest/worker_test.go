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

const slots = 8 // of a raw worker

// rawWorker speaks the worker's side of the protocol by hand, one report a
// request, and records each.
type rawWorker struct {
	client
	name, session string
	pulls         []string // subjects

	mu       sync.Mutex // guards inFlight
	inFlight map[string]wire.RunRef
}

func (l *load) rawWorker(n int) {
	w := &rawWorker{client: *l.client(n), name: fmt.Sprintf("raw-%d", n), session: ulid.Make().String(), inFlight: map[string]wire.RunRef{}}
	l.wg.Go(func() {
		defer w.nc.Close()
		w.run()
	})
}

func (w *rawWorker) run() {
	var runs sync.WaitGroup
	defer runs.Wait()
	sub, err := w.nc.SubscribeSync(w.nc.NewInbox())
	if err != nil {
		w.l.t.Error(err)
		return
	}
	free := make(chan struct{}, slots)
	for range slots {
		free <- struct{}{}
	}
	var beat time.Time
	for w.l.work.Err() == nil {
		if len(w.pulls) == 0 || time.Since(beat) > time.Second {
			w.greet()
			beat = time.Now()
		}
		if len(w.pulls) == 0 {
			pause(w.l.work, 100*time.Millisecond)
			continue
		}
		select {
		case <-free:
		case <-w.l.work.Done():
			return
		}
		msg := w.pull(sub)
		if msg == nil {
			free <- struct{}{}
			continue
		}
		seed := w.rng.IntN(1000)
		runs.Go(func() {
			w.handle(msg, seed)
			free <- struct{}{}
		})
	}
}

// greet registers, and says what runs.
func (w *rawWorker) greet() {
	var reply wire.Registered
	me := wire.Register{Pull: true, Worker: w.name, Session: w.session, Types: []string{"raw"}, Slots: slots}
	if _, err := w.ask("register", me, &reply); err != nil {
		return
	}
	w.pulls = nil
	js := "$JS.API."
	if reply.JetStreamDomain != "" {
		js = "$JS." + reply.JetStreamDomain + ".API."
	}
	for _, consumer := range reply.Consumers["raw"] {
		w.pulls = append(w.pulls, js+"CONSUMER.MSG.NEXT."+reply.Stream+"."+consumer)
	}
	w.mu.Lock()
	beat := wire.Heartbeat{Register: me}
	for _, held := range w.inFlight {
		beat.InFlight = append(beat.InFlight, held)
	}
	w.mu.Unlock()
	var answer wire.HeartbeatReply
	_, _ = w.ask("heartbeat", beat, &answer)
}

// pull asks for one item, and returns nil if there is none.
func (w *rawWorker) pull(sub *nats.Subscription) *nats.Msg {
	const expires = 500 * time.Millisecond
	if w.nc.PublishRequest(w.pulls[0], sub.Subject, fmt.Appendf(nil, `{"batch":1,"expires":%d}`, expires)) != nil {
		pause(w.l.work, 50*time.Millisecond)
		return nil
	}
	msg, err := sub.NextMsg(expires + 500*time.Millisecond)
	if err != nil {
		return nil
	}
	if msg.Header.Get(wire.HeaderID) != "" {
		return msg
	}
	if status := msg.Header.Get("Status"); status != "408" {
		w.pulls = nil // the consumer is gone, or elsewhere
		pause(w.l.work, 50*time.Millisecond)
	}
	return nil
}

// handle runs what a message brings, and acks it if its last report was answered: otherwise
// the lease has to end.
func (w *rawWorker) handle(msg *nats.Msg, seed int) {
	r := wire.Report{ID: msg.Header.Get(wire.HeaderID), Token: msg.Header.Get(wire.HeaderToken), Worker: w.name, Session: w.session}
	w.l.dispatched(r.Token, msg.Reply)
	w.mu.Lock()
	w.inFlight[r.Token] = wire.RunRef{ID: r.ID, Token: r.Token}
	w.mu.Unlock()
	if w.work(r, seed) {
		_ = msg.Respond([]byte("+ACK"))
	}
	w.mu.Lock()
	delete(w.inFlight, r.Token)
	w.mu.Unlock()
}

// work claims an item, runs it for a moment and reports its end. Few runs fail, and very
// few outlast their lease.
func (w *rawWorker) work(r wire.Report, seed int) (answered bool) {
	r.Event, r.Start = "claim", true
	if granted, answered := w.report(opClaim, r, 2); !granted {
		return answered
	}
	w.l.runs.Add(1)
	switch {
	case seed < 5:
		pause(w.l.work, 4*time.Second)
	case seed < 500:
		pause(w.l.work, time.Duration(seed%20)*time.Millisecond)
	}
	op := opComplete
	r.Event, r.Result = "complete", json.RawMessage(`{"by":"`+w.name+`"}`)
	if seed%20 == 1 {
		op, r.Event, r.Result, r.Error = opFail, "fail", nil, "it was its turn to fail"
	}
	_, answered = w.report(op, r, 30)
	return answered
}

// report asks until there is an answer, at most so many times.
func (w *rawWorker) report(op string, r wire.Report, tries int) (accepted, answered bool) {
	in := input{op: op, part: w.l.partOf(r.ID), id: r.ID, token: r.Token}
	for range tries {
		var reply []wire.Reported
		call := w.l.now()
		out, err := w.ask("report", []wire.Report{r}, &reply)
		if err == nil && out.refused == "" {
			if len(reply) != 1 {
				w.l.t.Errorf("one report is answered by %d", len(reply))
				return false, false
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
			return out.refused == "", true
		}
		pause(context.Background(), 100*time.Millisecond)
	}
	return false, false
}

// libWorker is a worker of package workers.
func (l *load) libWorker(n int) *workers.Worker {
	nc := l.c.connect()
	w, err := workers.New(nc, workers.Config{ID: events.WorkerID(fmt.Sprintf("lib-%d", n)), Concurrency: 16, DrainTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		l.t.Fatal(err)
	}
	workers.HandleRaw(w, "lib", func(ctx context.Context, it *workers.RawItem) (any, error) {
		l.runs.Add(1)
		l.dispatched(fmt.Sprint(it.ID, " attempt ", it.Attempt), "")
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
