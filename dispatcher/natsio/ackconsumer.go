package natsio

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
)

// AckSlack is added to the lease of an ack type. A server that starts again knows only the second in
// which it delivered a message (encodeConsumerState in server/store.go, 2.15.2), so earlier
// ack-waits end up to that much early.
const AckSlack = time.Second

// ackConfig returns the configuration of a type's consumer, except whether it is paused.
func (t *Topology) ackConfig(c ackmode.Consumer) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: string(c.Type), FilterSubject: t.cfg.Names.AckRun(c.Type), AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.Lease + AckSlack,
		MaxDeliver: 1, MaxAckPending: max(c.Window, 1), MaxWaiting: 2048, SampleFrequency: "100%", MemoryStorage: t.cfg.MemoryOnly,
	}
}

// isAnother reports whether a consumer could not be updated because it differs in what
// can't be changed: somebody else has made it.
func isAnother(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeConsumerCreate || api.ErrorCode == jetstream.JSErrCodeConsumerExists)
}

// isAsWanted reports whether a consumer still is as the engine made it. If not, the server
// could retry what the engine should retry, fail to report acks, or use another lease.
func (t *Topology) isAsWanted(info *jetstream.ConsumerInfo, c ackmode.Consumer) bool {
	have, want := info.Config, t.ackConfig(c)
	return info.Paused == c.Paused && have.FilterSubject == want.FilterSubject && len(have.FilterSubjects) == 0 &&
		have.AckPolicy == want.AckPolicy && have.AckWait == want.AckWait && len(have.BackOff) == 0 &&
		have.MaxDeliver == want.MaxDeliver && have.MaxAckPending == want.MaxAckPending &&
		strings.TrimSuffix(have.SampleFrequency, "%") == strings.TrimSuffix(want.SampleFrequency, "%")
}

// EnsureAckConsumer makes a type's consumer, and lets it deliver or not.
func (t *Topology) EnsureAckConsumer(ctx context.Context, c ackmode.Consumer) error {
	stream, cfg := t.cfg.Names.DispatchStream(), t.ackConfig(c)
	if c.Paused {
		cfg.PauseUntil = &AtRest // for a new consumer; an existing one keeps what it has
	}
	cons, err := t.js.CreateOrUpdateConsumer(ctx, stream, cfg)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = t.EnsureAckStreams(ctx); err == nil {
			cons, err = t.js.CreateOrUpdateConsumer(ctx, stream, cfg)
		}
	}
	if isAnother(err) {
		t.log.Warn("somebody has made a consumer in another way: making it anew", "type", c.Type, "error", err)
		if err = t.js.DeleteConsumer(ctx, stream, cfg.Durable); err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
			cons, err = t.js.CreateOrUpdateConsumer(ctx, stream, cfg)
		}
	}
	if err == nil && cons.CachedInfo().Paused != c.Paused {
		if c.Paused {
			_, err = t.js.PauseConsumer(ctx, stream, cfg.Durable, AtRest)
		} else {
			err = t.resumeAck(ctx, stream, cfg)
		}
	}
	if err != nil {
		return fmt.Errorf("make the consumer of type %s: %w", c.Type, err)
	}
	return nil
}

// resumeAck lets a consumer deliver again. Changing MaxAckPending up and back gives
// waiting pullers their messages at once: the server does not look for messages when a
// consumer is resumed, only when that bound changes.
func (t *Topology) resumeAck(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) error {
	if _, err := t.js.ResumeConsumer(ctx, stream, cfg.Durable); err != nil {
		return err
	}
	for _, more := range []int{1, 0} {
		c := cfg
		c.MaxAckPending += more
		if _, err := t.js.UpdateConsumer(ctx, stream, c); err != nil {
			return err
		}
	}
	return nil
}

// InspectAcks finds how far a consumer is with messages: see acksweep.go. A message
// counts as over only if it is still there, by its token: one that was lost was not acked.
// What was found before the server stopped answering counts; the rest is left to the next
// sweep.
func (p *Pusher) InspectAcks(c ackmode.Consumer, waiting []Stored) {
	p.chore(func(ctx context.Context) {
		s, err := p.dispatchStream(ctx)
		var cons jetstream.Consumer
		if err == nil {
			cons, err = s.Consumer(ctx, string(c.Type))
		}
		if err != nil {
			if gone(err) {
				p.repairAcks()
			}
			return
		}
		info := cons.CachedInfo()
		if !p.topology.isAsWanted(info, c) {
			p.log.Warn("a consumer is not as it is to be: changing it back", "type", c.Type)
			if err := p.topology.EnsureAckConsumer(ctx, c); err != nil {
				p.log.Warn("a consumer could not be changed back", "type", c.Type, "error", err)
			}
			return
		}
		behind := p.topology.acks.behind.Load() // news may only not be heard yet
		var looks []ackmode.Look
		for _, w := range waiting {
			found, err := p.stillAck(ctx, s, w)
			if err != nil {
				break
			}
			switch {
			case !found:
				looks = append(looks, ackmode.Look{Token: w.Token, Finding: ackmode.Gone})
			case w.Seq > info.Delivered.Stream:
			case w.Seq > info.AckFloor.Stream:
				looks = append(looks, ackmode.Look{Token: w.Token, Finding: ackmode.Delivered})
			case !behind:
				looks = append(looks, ackmode.Look{Token: w.Token, Finding: ackmode.Over})
			}
		}
		p.signals.AckLooks(looks)
	})
}
