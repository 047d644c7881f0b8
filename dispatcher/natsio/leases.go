package natsio

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/wire"
)

// LeaseReader follows the server's advisories. With MaxDeliver 1, one comes for each
// message that was neither acked nor renewed within its ack-wait.
type LeaseReader struct {
	signals  *Signals
	topology *Topology
	since    time.Time // earlier advisories concern no present dispatch
}

// NewLeaseReader makes the reader of an ownership, for advisories from since on.
func NewLeaseReader(t *Topology, sig *Signals, since time.Time) *LeaseReader {
	return &LeaseReader{signals: sig, topology: t, since: since}
}

// Read runs until ctx ends. If the stream is deleted, Read makes it anew and goes on; the
// sweep finds what was missed.
func (r *LeaseReader) Read(ctx context.Context) {
	trouble := lograte.NewTrouble(r.topology.log, "lease advisories")
	defer trouble.Stop()
	for {
		err := r.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		trouble.Failed(err)
		if !pauseFor(ctx) {
			return
		}
		if err := r.topology.EnsureStreams(ctx); err != nil && ctx.Err() == nil {
			trouble.Failed(err)
		}
		r.signals.SweepNow()
	}
}

// retryRead is the wait before a stream that could not be read is read again.
const retryRead = 200 * time.Millisecond

// pauseFor waits for retryRead, and reports false when ctx ended first.
func pauseFor(ctx context.Context) bool {
	t := time.NewTimer(retryRead)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (r *LeaseReader) follow(ctx context.Context) error {
	f, err := connect.OpenFeed(ctx, r.topology.js, r.topology.cfg.Names, connect.FeedConfig{Stream: r.topology.cfg.Names.LeaseStream(), Since: r.since})
	if err != nil {
		return fmt.Errorf("follow lease advisories: %w", err)
	}
	defer f.Close()
	for {
		m, err := f.Next(ctx)
		if err != nil {
			return fmt.Errorf("follow lease advisories: %w", err)
		}
		r.advisory(ctx, m.Data)
	}
}

// advisory looks up whose lease has expired: the message is still in the dispatch stream,
// and its header names the dispatch.
func (r *LeaseReader) advisory(ctx context.Context, data []byte) {
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
			r.signals.SweepNow()
		}
		return
	}
	if id, token, ok := dispatchedBy(m.Header); ok {
		r.signals.LeaseExpired(Expiry{ID: id, Token: token, Seq: adv.StreamSeq})
	}
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

// scanDispatched calls fn for each message of the dispatch stream, with the zero token for
// a message that is not the engine's.
func scanDispatched(ctx context.Context, nc *nats.Conn, s jetstream.Stream, names wire.Names, fn func(seq uint64, id events.ID, token events.Token, lease time.Duration) error) error {
	err := scanStream(ctx, nc, s, names, names.RunAll(), func(seq uint64, h nats.Header) error {
		id, token, _ := dispatchedBy(h)
		return fn(seq, id, token, leaseTold(h))
	})
	if err != nil {
		return fmt.Errorf("scan dispatched items: %w", err)
	}
	return nil
}

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

// maxDeletes is the most deletes under way at once.
const maxDeletes = 64

// deleteMsgs deletes messages; some may be gone already.
func deleteMsgs(ctx context.Context, s jetstream.Stream, seqs []uint64) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxDeletes)
	for _, seq := range seqs {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := s.DeleteMsg(ctx, seq); err != nil && !noSuchMessage(err) {
				return err
			}
			return nil
		})
	}
	return g.Wait()
}
