package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// leaseReader follows the server's advisories: with MaxDeliver 1, one comes
// for each message that was neither acked nor renewed within its ack-wait.
type leaseReader struct {
	cfg      *Config
	js       jetstream.JetStream
	signals  *signals
	topology *topology
	since    time.Time // advisories of before concern nothing that is dispatched
}

// read runs until ctx ends. When the stream is deleted under it, it makes it
// anew and goes on; the sweep finds what was missed.
func (r *leaseReader) read(ctx context.Context) {
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		r.cfg.Logger.Warn("lease advisories: starting again", "error", err)
		if !pause(ctx, retryRead) {
			return
		}
		if err := r.topology.ensureStreams(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("lease advisories: the streams could not be made", "error", err)
		}
		r.signals.sweepNow()
	}
}

// retryRead is the wait before a stream that could not be read is read again.
const retryRead = 200 * time.Millisecond

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *leaseReader) follow(ctx context.Context) error {
	cons, err := r.js.OrderedConsumer(ctx, r.cfg.Names.LeaseStream(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &r.since,
	})
	if err != nil {
		return fmt.Errorf("follow lease advisories: %w", err)
	}
	cc, err := cons.Consume(func(m jetstream.Msg) { r.advisory(ctx, m.Data()) })
	if err != nil {
		return fmt.Errorf("follow lease advisories: %w", err)
	}
	defer func() { cc.Stop(); <-cc.Closed() }()
	select {
	case <-ctx.Done():
		return nil
	case <-cc.Closed():
		return fmt.Errorf("follow lease advisories: the consumer has ended")
	}
}

// advisory looks up whose lease has expired: the message is still in the
// dispatch stream, and says it.
func (r *leaseReader) advisory(ctx context.Context, data []byte) {
	var adv struct {
		StreamSeq uint64 `json:"stream_seq"`
	}
	if err := json.Unmarshal(data, &adv); err != nil || adv.StreamSeq == 0 {
		return
	}
	c, cancel := context.WithTimeout(ctx, choreTimeout)
	defer cancel()
	m, err := r.topology.dispatchStream().GetMsg(c, adv.StreamSeq)
	if err != nil {
		if !gone(err) {
			r.signals.sweepNow()
		}
		return
	}
	if id, token, ok := dispatchedBy(m.Header); ok {
		r.signals.leaseExpired(expiry{id: id, token: token, seq: adv.StreamSeq})
	}
}

// dispatchedBy reads whose dispatch a message is.
func dispatchedBy(h nats.Header) (id events.ID, token events.Token, ok bool) {
	id, err := events.ParseID(h.Get(wire.HeaderID))
	if err != nil {
		return id, 0, false
	}
	token, err = wire.ParseToken(h.Get(wire.HeaderToken))
	return id, token, err == nil && token != 0
}

// scanDispatched calls fn for each message of the dispatch stream, with the
// zero token for one that is not ours.
func scanDispatched(ctx context.Context, s jetstream.Stream, names wire.Names, fn func(seq uint64, id events.ID, token events.Token) error) error {
	info, err := s.Info(ctx)
	if err != nil {
		return fmt.Errorf("scan dispatched items: %w", err)
	}
	for seq := info.State.FirstSeq; info.State.Msgs > 0 && seq <= info.State.LastSeq; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(names.RunAll()))
		if gone(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("scan dispatched items: %w", err)
		}
		id, token, _ := dispatchedBy(m.Header)
		if err := fn(m.Sequence, id, token); err != nil {
			return fmt.Errorf("scan dispatched items: %w", err)
		}
		seq = m.Sequence + 1
	}
	return nil
}
