package natsio

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of one request of a scan.
const (
	scanBatch  = 1024
	scanBytes  = 4 << 20
	scanWithin = 20 * time.Second
)

// scanStream calls fn for each message that is in a stream now. It asks for many at once:
// one by one, a takeover would take a round trip for each.
func scanStream(ctx context.Context, nc *nats.Conn, s jetstream.Stream, names wire.Names, subject string, fn func(seq uint64, h nats.Header) error) error {
	info, err := s.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	r := directget.Request{Seq: info.State.FirstSeq, NextFor: subject, Batch: scanBatch, MaxBytes: scanBytes}
	for end := info.State.LastSeq; r.Seq <= end; {
		one, cancel := context.WithTimeout(ctx, scanWithin)
		msgs, more, err := directget.Get(one, nc, names.JetStream("DIRECT.GET."+info.Config.Name), r)
		cancel()
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Seq > end {
				return nil
			}
			if err := fn(m.Seq, m.Header); err != nil {
				return err
			}
			r.Seq = m.Seq + 1
		}
		if more == 0 || len(msgs) == 0 {
			return nil
		}
	}
	return nil
}

// dispatchedBy returns the item and token of a message's dispatch.
func dispatchedBy(h nats.Header) (id events.ID, token events.Token, ok bool) {
	id, err := events.ParseID(h.Get(wire.HeaderID))
	if err != nil {
		return id, 0, false
	}
	token, err = wire.ParseToken(h.Get(wire.HeaderToken))
	return id, token, err == nil && token != 0
}

// leaseTold returns the lease that a message tells its worker; 0 for none.
func leaseTold(h nats.Header) time.Duration {
	lease, err := time.ParseDuration(h.Get(wire.HeaderLease))
	if err != nil {
		return 0
	}
	return lease
}
