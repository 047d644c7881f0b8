package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/workers"
)

// started is a worker that runs on a connection of its own.
type started struct {
	nc *nats.Conn
	w  *workers.Worker
}

func (s *started) stop() error {
	defer s.nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.w.Stop(ctx)
}

func (r *rig) connectWorker(ctx context.Context, slots int, typ string, fn workers.Handler) (*started, error) {
	nc, err := r.eng.Connect(nats.Name("bench-worker"))
	if err != nil {
		return nil, err
	}
	w, err := workers.New(nc, workers.Config{Concurrency: slots, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		nc.Close()
		return nil, err
	}
	workers.HandleRaw(w, typ, fn)
	if err := w.Start(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return &started{nc, w}, nil
}

// worker starts a worker.
func (r *rig) worker(ctx context.Context, slots int, typ string, fn workers.Handler) (stop func() error, err error) {
	w, err := r.connectWorker(ctx, slots, typ, fn)
	if err != nil {
		return nil, err
	}
	return w.stop, nil
}

func nothing(context.Context, *workers.RawItem) (any, error) { return nil, nil }

// completed waits until n items of a type are completed, and returns the time. It asks
// seldom while many are left: the answers are work for the engine, too.
func (r *rig) completed(ctx context.Context, typ string, n int) (time.Time, error) {
	begun := time.Now()
	for {
		s, err := r.client.Engine().Stats(ctx)
		if err != nil {
			return time.Time{}, err
		}
		done := 0
		for _, t := range s.Types {
			if t.Type == typ {
				done = int(t.States["completed"])
			}
		}
		if done >= n {
			return time.Now(), nil
		}
		// A quarter of the time that the rest takes at this rate.
		wait := 50 * time.Millisecond
		if done > 0 {
			rest := float64(time.Since(begun)) * float64(n-done) / float64(done)
			wait = min(max(wait, time.Duration(rest/4)), 500*time.Millisecond)
		}
		if err := sleep.For(ctx, wait); err != nil {
			return time.Time{}, err
		}
	}
}

// items yields n items of a type.
func items(typ string, n int, edit func(i int, it *streamwright.Item)) iter.Seq[streamwright.Item] {
	body := json.RawMessage(params(bodyBytes))
	return func(yield func(streamwright.Item) bool) {
		for i := range n {
			it := streamwright.Item{Type: typ, Params: body}
			if edit != nil {
				edit(i, &it)
			}
			if !yield(it) {
				return
			}
		}
	}
}

func (r *rig) submitAll(ctx context.Context, typ string, n int, edit func(int, *streamwright.Item)) error {
	return r.client.SubmitSeq(ctx, items(typ, n, edit), func(s streamwright.Submitted) error {
		if s.Error != nil {
			return fmt.Errorf("submit: %w", s.Error.Err())
		}
		return nil
	})
}

// measureFlow is (b): items go in while the worker runs, until all are
// completed: five durable events each.
func (r *rig) measureFlow(ctx context.Context) error {
	js, err := jetstream.New(r.client.Conn(), jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name, typ string
		submit    func() error
	}{
		{"(b) end to end, plain publishes", "flow-publish", func() error { return publishAll(ctx, js, "work.submit.flow-publish", r.o.Items) }},
		{"(b) end to end, work.api.submit", "flow-submit", func() error { return r.submitAll(ctx, "flow-submit", r.o.Items, nil) }},
	} {
		stop, err := r.worker(ctx, r.o.Slots, way.typ, nothing)
		if err != nil {
			return err
		}
		start, used := time.Now(), r.costNow()
		if err := way.submit(); err != nil {
			return err
		}
		if _, err := r.burned(ctx, way.name, way.typ, start); err != nil {
			return err
		}
		r.costs(way.name, r.o.Items, used)
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
}

// measureBurnDown is (c): the backlog is there before the worker.
func (r *rig) measureBurnDown(ctx context.Context) error {
	_, err := r.burnDown(ctx, "(c) burn-down of a backlog", "burndown", nil, nothing)
	return err
}

// burnDown submits a backlog and then works it off. It returns the items a second.
func (r *rig) burnDown(ctx context.Context, what, typ string, edit func(int, *streamwright.Item), handle workers.Handler) (float64, error) {
	if err := r.submitAll(ctx, typ, r.o.Items, edit); err != nil {
		return 0, err
	}
	start, used := time.Now(), r.costNow()
	stop, err := r.worker(ctx, r.o.Slots, typ, handle)
	if err != nil {
		return 0, err
	}
	rate, err := r.burned(ctx, what, typ, start)
	r.costs(what, r.o.Items, used)
	return rate, errors.Join(err, stop())
}

// burned waits for the end of a backlog that a worker began to work off at start.
func (r *rig) burned(ctx context.Context, what, typ string, start time.Time) (float64, error) {
	end, err := r.completed(ctx, typ, r.o.Items)
	if err != nil {
		return 0, err
	}
	return r.rate(what, r.o.Items, end.Sub(start)), nil
}

// measureBulk measures how fast items are accepted, durably.
func (r *rig) measureBulk(ctx context.Context) error {
	const what = "bulk submit (arrays of up to 1,000)"
	start, used := time.Now(), r.costNow()
	if err := r.submitAll(ctx, "bulk", r.o.Items, nil); err != nil {
		return err
	}
	r.rate(what, r.o.Items, time.Since(start))
	r.costs(what, r.o.Items, used)
	return nil
}

// rate writes, and returns, how many items a second n in some time are.
func (r *rig) rate(what string, n int, took time.Duration) float64 {
	rate, ratio := float64(n)/took.Seconds(), 0.0
	if r.floor > 0 {
		ratio = rate / r.floor
	}
	r.t.row(what, rate, "items/s", ratio)
	return rate
}

// measureRebuild is (e): rebuilding the store from the log.
func (r *rig) measureRebuild(ctx context.Context) error {
	start, rebuilt, replayed := time.Now(), time.Duration(0), uint64(0)
	res, err := r.client.Engine().Verify(ctx, func(p streamwright.Proof) {
		if p.Events > replayed { // told about ten times a second
			replayed, rebuilt = p.Events, time.Since(start)
		}
	})
	if err != nil {
		return err
	}
	if !res.Equal {
		return fmt.Errorf("the rebuilt store differs from the live one: %v", res.Diff)
	}
	if replayed == 0 { // it was over before it told of any: then the comparison counts too
		replayed, rebuilt = res.Events, time.Since(start)
	}
	r.t.row("(e) rebuild", float64(replayed)/rebuilt.Seconds(), "events/s", 0)
	r.t.row("(e) rebuild and compare", float64(res.Events)/(float64(res.ElapsedMS)/1000), "events/s", 0)
	r.t.row("(e) events in the log", float64(res.Events), "events", 0)
	return nil
}
