package dispatcher

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
)

// intakeReader follows the intake stream from where the log left off. It needs
// no acks: the events say which messages have been answered. It reads ahead by
// a bounded number of bytes; when the loop takes none, it stops.
type intakeReader struct {
	cfg    *Config
	newID  func() events.ID
	out    chan<- job
	budget *semaphore.Weighted // maxIntakeBytes, for all readers of an ownership
	judge  *judge              // nil: nobody is asked
	after  uint64              // the last message handed to out

	wake chan struct{}
	mu   sync.Mutex // guards buf
	buf  []*intakeMsg
}

// readIntake follows the intake stream, and again when that was disturbed.
func (e *Engine) readIntake(ctx context.Context, l *loop, after uint64) {
	budget := semaphore.NewWeighted(maxIntakeBytes)
	for ctx.Err() == nil {
		r := &intakeReader{cfg: &e.cfg, newID: e.NewID, out: l.intake, budget: budget, judge: e.judge, after: after, wake: make(chan struct{}, 1)}
		err := r.read(ctx, e.js)
		if after = r.after; err == nil || ctx.Err() != nil {
			return
		}
		e.cfg.Logger.Warn("intake: starting again", "error", err)
		pause(ctx, retryRead)
		if err := e.topology.ensureStreams(ctx); err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("intake: the streams could not be made", "error", err)
		}
	}
}

// read runs until ctx ends (nil) or the stream can't be read any more.
func (r *intakeReader) read(ctx context.Context, js jetstream.JetStream) error {
	cons, err := js.OrderedConsumer(ctx, r.cfg.Names.IntakeStream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.cfg.Names.Intake(r.cfg.Partition, "*")},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.after + 1,
	})
	if err != nil {
		return fmt.Errorf("read intake: %w", err)
	}
	cc, err := cons.Consume(func(m jetstream.Msg) { r.take(ctx, m) },
		jetstream.PullMaxMessagesWithBytesLimit(maxPulled, maxPullBytes),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			r.cfg.Logger.Warn("intake: reading was disturbed", "error", err)
		}))
	if err != nil {
		return fmt.Errorf("read intake: %w", err)
	}
	err = r.handOver(ctx, cc.Closed())
	cc.Stop()
	<-cc.Closed()
	for _, m := range r.buf { // no longer written: the consumer has ended
		r.budget.Release(m.weight)
	}
	return err
}

// handOver gives the loop what was read, in batches.
func (r *intakeReader) handOver(ctx context.Context, closed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return fmt.Errorf("read intake: the consumer has ended")
		case <-r.wake:
		}
		for batch := r.grab(); len(batch) > 0; batch = r.grab() {
			r.judgeAll(ctx, batch)
			j := &intakeJob{msgs: batch, budget: r.budget}
			if ctx.Err() != nil { // it may have been judged in a hurry
				j.abandon(nil)
				return nil
			}
			select {
			case r.out <- j:
				r.after = batch[len(batch)-1].seq
			case <-ctx.Done():
				j.abandon(nil)
				return nil
			}
		}
	}
}

// take parses a message, in the consumer's goroutine. It waits for its part of
// the budget, and the server with it.
func (r *intakeReader) take(ctx context.Context, m jetstream.Msg) {
	seq, ok := streamSeq(m.Reply())
	if !ok {
		r.cfg.Logger.Error("intake: a message without a sequence was skipped: is it this server's?", "reply", m.Reply())
		return
	}
	weight := int64(overhead + len(m.Data()))
	if r.budget.Acquire(ctx, weight) != nil {
		return
	}
	msg := &nats.Msg{Subject: m.Subject(), Header: nats.Header(m.Headers()), Data: m.Data()}
	in := parseIntake(seq, msg, r.cfg, r.newID())
	in.weight = weight
	r.mu.Lock()
	r.buf = append(r.buf, in)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// grab takes the next batch that waits for the loop.
func (r *intakeReader) grab() []*intakeMsg {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.buf), maxIntakeBatch)
	batch := r.buf[:n:n]
	if r.buf = r.buf[n:]; len(r.buf) == 0 {
		r.buf = nil
	}
	return batch
}

// streamSeq reads the stream sequence from an ack subject, which is
// $JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<time>.<pending>, or
// the same with a domain and an account hash before the stream.
func streamSeq(reply string) (uint64, bool) {
	at := 5
	if strings.Count(reply, ".") > 8 {
		at = 7
	}
	i := 0
	for token := range strings.SplitSeq(reply, ".") {
		if i++; i <= at {
			continue
		}
		n := uint64(0)
		for _, c := range []byte(token) {
			if c < '0' || c > '9' {
				return 0, false
			}
			n = n*10 + uint64(c-'0')
		}
		return n, token != ""
	}
	return 0, false
}
