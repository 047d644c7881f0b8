package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/internal/sleep"
)

// Queue is a connection to a work queue: it submits and works. All but Work and Close are
// safe for concurrent use.
type Queue interface {
	// Submit returns when the queue has acknowledged one item.
	Submit(ctx context.Context, p Payload) error
	// SubmitMany does the same for up to BulkBatch items, in the way that the queue has
	// for many.
	SubmitMany(ctx context.Context, ps []Payload) error
	// Work handles items, several at a time, until stop is called. It is called once.
	Work(ctx context.Context, handle func(Payload)) (stop func() error, err error)
	// Drained reports whether the queue has recorded n items as done, which is all
	// that it was given.
	Drained(ctx context.Context, n int) (bool, error)
	Close() error
}

// Payload is what an item carries, as JSON: PayloadBytes bytes.
type Payload struct {
	Seq int    `json:"seq"`
	Pad string `json:"pad"`
}

// PayloadBytes is the size of an item's params.
const PayloadBytes = 256

// filler compresses about as well as JSON does, which matters where a queue compresses.
var filler = strings.Repeat(`customer order invoice 4711 street Hamburg 20095 item 0.95 EUR; `, 4)

// NewPayload returns the payload of a number.
func NewPayload(seq int) Payload {
	return Payload{seq, filler[:PayloadBytes-len(`{"seq":,"pad":""}`)-len(strconv.Itoa(seq))]}
}

// JSON encodes p, faster than package json.
func (p Payload) JSON() json.RawMessage {
	b := strconv.AppendInt(append(make([]byte, 0, PayloadBytes), `{"seq":`...), int64(p.Seq), 10)
	return append(append(append(b, `,"pad":"`...), p.Pad...), `"}`...)
}

// SeqOf reads only the number of what JSON has encoded.
func SeqOf(data []byte) (Payload, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(string(data), `{"seq":`), ",")
	seq, err := strconv.Atoi(text)
	return Payload{Seq: seq}, err
}

const (
	// BulkBatch is the number of items in one call of SubmitMany.
	BulkBatch = 1000
	// BulkCallers is the number of such calls at once.
	BulkCallers = 4
	// maxInFlight bounds the submits of an open loop that await their acknowledgement, as
	// any client does: with thousands, some clients give up waiting for a connection.
	// Submits beyond it are late.
	maxInFlight = 256
	// drainEach is the time between two looks at what a queue has recorded.
	drainEach = 5 * time.Millisecond
)

// Bulk submits n items, numbered from first, in batches, so many at once. With one caller
// they are in the order of their numbers.
func Bulk(ctx context.Context, q Queue, first, n, callers int) error {
	return each(ctx, (n+BulkBatch-1)/BulkBatch, callers, func(ctx context.Context, i int) error {
		batch := make([]Payload, min(BulkBatch, n-i*BulkBatch))
		for k := range batch {
			batch[k] = NewPayload(first + i*BulkBatch + k)
		}
		return q.SubmitMany(ctx, batch)
	})
}

// Single submits n items, numbered from first, one by one, by so many clients at once.
func Single(ctx context.Context, q Queue, first, n, clients int) error {
	return each(ctx, n, clients, func(ctx context.Context, i int) error { return q.Submit(ctx, NewPayload(first+i)) })
}

// each does something n times, by so many goroutines.
func each(ctx context.Context, n, clients int, do func(context.Context, int) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range clients {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// Drain waits until every item of a tally has been handled and recorded as done.
func Drain(ctx context.Context, q Queue, t *Tally) error {
	if err := t.Wait(ctx); err != nil {
		return err
	}
	for {
		if ok, err := q.Drained(ctx, len(t.handled)); ok || err != nil {
			return err
		}
		if err := sleep.For(ctx, drainEach); err != nil {
			return fmt.Errorf("wait for the queue to record what was handled: %w", err)
		}
	}
}

// OpenLoop submits the items of a tally at a rate, in items a second, whatever comes back,
// and waits until each has been handled. With intended, latencies count from the time at
// which an item was to be submitted, so that a queue that falls behind shows its whole
// backlog: nothing is left out because the submitter had to wait (no coordinated
// omission). Otherwise they count from the time at which it was submitted, and leave out
// how late the timers of this process are.
func OpenLoop(ctx context.Context, q Queue, t *Tally, rate int, intended bool) error {
	t.begun = time.Now()
	g, submitting := errgroup.WithContext(ctx)
	g.SetLimit(maxInFlight)
	for i := range t.from {
		due := time.Duration(float64(i) / float64(rate) * float64(time.Second))
		if wait := due - time.Since(t.begun); wait > 0 && sleep.For(submitting, wait) != nil {
			break
		}
		g.Go(func() error {
			if t.from[i] = due; !intended {
				t.from[i] = time.Since(t.begun)
			}
			return q.Submit(submitting, NewPayload(i))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return t.Wait(ctx)
}
