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
	cfg     *Config
	js      jetstream.JetStream
	signals *signals
}

// read runs until ctx ends. When the stream is deleted under it, it makes it
// anew and goes on; the sweep finds what was missed.
func (r *leaseReader) read(ctx context.Context, t *topology) error {
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		r.cfg.Logger.Warn("lease advisories: starting again", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		if err := t.ensureStreams(ctx); err != nil && ctx.Err() == nil {
			r.cfg.Logger.Warn("lease advisories: the streams could not be made", "error", err)
		}
		r.signals.sweepNow()
	}
}

func (r *leaseReader) follow(ctx context.Context) error {
	cons, err := r.js.OrderedConsumer(ctx, r.cfg.Names.LeaseStream(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
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
	s, err := r.js.Stream(c, r.cfg.Names.DispatchStream())
	if err != nil {
		r.signals.sweepNow()
		return
	}
	m, err := s.GetMsg(c, adv.StreamSeq)
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

// scanDispatched calls fn for each message of the dispatch stream.
func scanDispatched(ctx context.Context, js jetstream.JetStream, names wire.Names, fn func(seq uint64, id events.ID, token events.Token)) error {
	s, err := js.Stream(ctx, names.DispatchStream())
	if err != nil {
		return fmt.Errorf("scan dispatched items: %w", err)
	}
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
		fn(m.Sequence, id, token)
		seq = m.Sequence + 1
	}
	return nil
}
