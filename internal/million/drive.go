package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

const (
	// eventsOfItem is the number of events of an item that completes at once:
	// created, queued, claimed, running, completed.
	eventsOfItem = 5
	driveWorkers = 4
	driveSlots   = 64
	driveType    = "tick"
	driveTick    = 50 * time.Millisecond // between two submissions
	driveRun     = 100 * time.Millisecond
)

func paramsOf(it *workers.RawItem) (w work, err error) {
	err = json.Unmarshal(it.Raw, &w)
	return w, err
}

// drive keeps the engine at so many events a second: items with labels that run
// for a tenth of a second each, on four workers; one in fifty fails and dies.
func drive(ctx context.Context, o options, out io.Writer) (err error) {
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	alive := context.WithoutCancel(ctx) // the workers end what they have begun
	for i := range driveWorkers {
		stop, e := startWorker(alive, o.server, fmt.Sprintf("driven-%d", i+1), driveSlots, []string{driveType}, handleTick)
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	c, err := streamwright.Connect(alive, o.server)
	if err != nil {
		return err
	}
	defer c.Close()
	return submitTicks(ctx, c, o.rate, out)
}

func handleTick(ctx context.Context, _ *workers.RawItem, w work) (any, error) {
	select {
	case <-time.After(driveRun):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if w.Fail > 0 {
		return nil, fail(w)
	}
	return nil, nil
}

// submitTicks submits what is due, in ticks, until ctx ends.
func submitTicks(ctx context.Context, c *streamwright.Client, rate int, out io.Writer) error {
	tick := time.NewTicker(driveTick)
	defer tick.Stop()
	start, said, n := time.Now(), time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			fmt.Fprintf(out, "%d items, about %.0f events a second\n", n, float64(n*eventsOfItem)/time.Since(start).Seconds())
			return nil
		}
		due := int(time.Since(start).Seconds()*float64(rate)/eventsOfItem) - n
		batch := make([]streamwright.Item, 0, min(due, events.MaxSubmitBatch))
		for range cap(batch) {
			it := item(n)
			w := it.Params.(work)
			if w.Fail = 0; n%50 == 0 {
				w.Fail = 1 + n/50%causes
			}
			it.Type, it.Params, it.Delay, it.DedupKey = driveType, w, 0, ""
			batch, n = append(batch, it), n+1
		}
		if len(batch) == 0 {
			continue
		}
		if _, err := c.SubmitMany(ctx, batch); err != nil && ctx.Err() == nil {
			return err
		}
		if time.Since(said) > reportTime {
			said = time.Now()
			fmt.Fprintf(out, "%d items in %v\n", n, time.Since(start).Round(time.Second))
		}
	}
}
