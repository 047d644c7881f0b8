package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// Bounds of one reader's requests to the server.
const (
	pullMessages = 2048     // of one request; at most two are open
	pullBytes    = 16 << 20 // of one request; more than any message
	pullExpires  = 20 * time.Second
	readStall    = 5 * time.Second // with no message: take a new consumer
	readRetries  = 5               // consumers in a row that bring nothing
	consumerIdle = time.Minute     // after which the server forgets one of ours
)

// errStalled: a consumer brings nothing although there is more.
var errStalled = errors.New("the server sends nothing")

// Read implements Log. Several may run at once. The events come from a
// consumer in the server's memory, which on a cluster any server with the
// stream may hold: it delivers only what the replicas have agreed on, and the
// end, which Last has from the leader, is waited for.
func (l *JetStream) Read(ctx context.Context, from, to events.Seq, fn func(Group) error) error {
	if from > to {
		return nil
	}
	tip, err := l.reached(ctx, to)
	if from == 0 {
		from = tip.First
	}
	if err == nil {
		err = checkRange(tip, from, to)
	}
	if err != nil {
		return err
	}
	f := &fetcher{log: l, next: from, to: to}
	return replay(ctx, l.cfg.Names, l.cfg.Partition, l.cfg.OnForeign, f.run, fn)
}

// fetcher brings the messages from next to to. It belongs to one goroutine.
type fetcher struct {
	log      *JetStream
	next, to events.Seq
	p        *pipeline
	chunk    *chunk

	// Of the current consumer:
	nc       *nats.Conn
	msgs     chan *nats.Msg
	inbox    string
	pull     string     // the subject of requests
	cseq     uint64     // its last delivery
	asked    events.Seq // the last position requested
	open     int        // requested and not received
	stallAt  *time.Timer
	consumer string
}

// run puts all messages into the pipeline, taking a new consumer where one
// fails.
func (f *fetcher) run(ctx context.Context, p *pipeline) error {
	f.p, f.chunk = p, &chunk{}
	for tries := 0; ; tries++ {
		before := f.next
		err := f.consume(ctx)
		if err == nil {
			return f.flush(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, ErrUnreachable) {
			return err
		}
		if f.next > before {
			tries = 0
		}
		if tries >= readRetries {
			return fmt.Errorf("read the event log at %d: %w", f.next, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(tries+1) * 50 * time.Millisecond):
		}
	}
}

// consume reads with one consumer for as long as it lasts.
func (f *fetcher) consume(ctx context.Context) error {
	sub, err := f.subscribe(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = sub.Unsubscribe()
		// Unanswered: the server forgets it anyhow after consumerIdle.
		_ = f.nc.Publish(f.log.cfg.Names.JetStream("CONSUMER.DELETE."+f.log.stream+"."+f.consumer), nil)
	}()
	f.stallAt = time.NewTimer(readStall)
	defer f.stallAt.Stop()
	for f.next <= f.to {
		if err := f.request(); err != nil {
			return err
		}
		select {
		case m := <-f.msgs:
			if err := f.take(ctx, m); err != nil {
				return err
			}
		case <-f.stallAt.C:
			return fmt.Errorf("%w: %w", ErrUnreachable, errStalled)
		case <-f.log.stop:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// subscribe creates the consumer and where its messages go.
func (f *fetcher) subscribe(ctx context.Context) (*nats.Subscription, error) {
	js, err := f.log.js()
	if err != nil {
		return nil, err
	}
	cctx, cancel := context.WithTimeout(ctx, f.log.cfg.AckTimeout)
	defer cancel()
	c, err := js.CreateConsumer(cctx, f.log.stream, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(f.next),
		AckPolicy:         jetstream.AckNonePolicy,
		ReplayPolicy:      jetstream.ReplayInstantPolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: consumerIdle,
	})
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code < 500 {
			return nil, fmt.Errorf("read the event log: create a consumer: %w", err)
		}
		return nil, fmt.Errorf("read the event log: create a consumer: %w: %w", ErrUnreachable, err)
	}
	f.nc = js.Conn()
	f.consumer = c.CachedInfo().Name
	f.pull = f.log.cfg.Names.JetStream("CONSUMER.MSG.NEXT." + f.log.stream + "." + f.consumer)
	f.inbox = f.nc.NewInbox()
	// Room for all that can be requested, and the ends of the requests.
	f.msgs = make(chan *nats.Msg, 2*pullMessages+16)
	f.cseq, f.asked, f.open = 0, f.next-1, 0
	sub, err := f.nc.ChanSubscribe(f.inbox, f.msgs)
	if err != nil {
		return nil, fmt.Errorf("read the event log: subscribe: %w: %w", ErrUnreachable, err)
	}
	return sub, nil
}

// request asks for more once half of what was requested has come.
func (f *fetcher) request() error {
	if f.asked >= f.to || f.open > pullMessages/2 {
		return nil
	}
	n := min(pullMessages, int(f.to-f.asked))
	req := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d}`, n, pullBytes, pullExpires.Nanoseconds())
	if err := f.nc.PublishRequest(f.pull, f.inbox, req); err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	f.asked += events.Seq(n)
	f.open += n
	return nil
}

// take puts one message into the current chunk.
func (f *fetcher) take(ctx context.Context, m *nats.Msg) error {
	if m.Subject == f.inbox {
		return f.status(m)
	}
	seq, cseq, err := ackSequences(m.Reply)
	if err != nil {
		return err
	}
	if cseq != f.cseq+1 {
		return fmt.Errorf("%w: a message of the consumer was lost", ErrUnreachable)
	}
	if seq != f.next {
		return f.hole(ctx, seq)
	}
	f.cseq, f.next, f.open = cseq, f.next+1, f.open-1
	f.chunk.add(message{seq: seq, subject: m.Subject, id: headerID(m.Header), data: m.Data})
	var full error
	if f.chunk.full() || f.next > f.to {
		full = f.flush(ctx) // waits for who applies the events: that is no stall
	}
	f.stallAt.Reset(readStall)
	return full
}

// hole says why the log does not have the next position.
func (f *fetcher) hole(ctx context.Context, found events.Seq) error {
	tip, err := f.log.Last(ctx)
	if err != nil {
		return err
	}
	if f.next < tip.First {
		return &TrimmedError{Asked: f.next, First: tip.First}
	}
	return &CorruptError{Seq: f.next, Reason: fmt.Sprintf("it is missing: the log goes on with %d", found)}
}

// status takes the end of a request that was not filled.
func (f *fetcher) status(m *nats.Msg) error {
	switch code := m.Header.Get("Status"); code {
	case "100": // idle
		return nil
	case "408", "409":
		n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
		if err != nil { // the consumer is gone, or its server is
			return fmt.Errorf("%w: %s", ErrUnreachable, m.Header.Get("Description"))
		}
		f.asked -= events.Seq(n)
		f.open -= n
		return nil
	default:
		return fmt.Errorf("%w: status %s %s", ErrUnreachable, code, m.Header.Get("Description"))
	}
}

func (f *fetcher) flush(ctx context.Context) error {
	if len(f.chunk.msgs) == 0 {
		return nil
	}
	c := f.chunk
	f.chunk = &chunk{msgs: make([]message, 0, chunkMessages)}
	return f.p.put(ctx, c)
}

// ackSequences reads the stream's and the consumer's sequence from the reply
// subject of a delivered message: $JS.ACK, stream, consumer, deliveries, the
// two, time, pending; newer servers may put domain and account before the
// stream, and a token behind.
func ackSequences(reply string) (seq events.Seq, cseq uint64, err error) {
	skip := 5
	if n := strings.Count(reply, "."); n >= 10 {
		skip = 7
	} else if n != 8 {
		return 0, 0, fmt.Errorf("unreadable delivery %q of the event log", reply)
	}
	rest := reply
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	a, rest, _ := strings.Cut(rest, ".")
	b, _, _ := strings.Cut(rest, ".")
	s, err1 := strconv.ParseUint(a, 10, 64)
	c, err2 := strconv.ParseUint(b, 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, fmt.Errorf("unreadable delivery %q of the event log: %w", reply, err)
	}
	return events.Seq(s), c, nil
}
