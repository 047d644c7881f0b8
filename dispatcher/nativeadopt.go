package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// nativeMsg is a message found in the native stream.
type nativeMsg struct {
	seq   uint64
	at    time.Time
	id    events.ID
	token events.Token
	lease time.Duration // as its worker was told
}

// adoptNatives takes over what is on its way to native workers, or with them:
// unlike what waits for a claim it stays there, since a worker may have it. What
// became of it meanwhile is in the stream that captures the acks.
func (e *Engine) adoptNatives(ctx context.Context, l *loop) error {
	now := l.clock.Now()
	l.native.since = now.Add(-time.Second)
	any := false
	for _, t := range l.state.TypeNames() {
		if set, _ := l.state.Settings(t); set.Native() {
			l.native.on[t], any = nativeConsumer{}, true
		}
	}
	s, err := e.js.Stream(ctx, e.cfg.Names.NativeStream())
	if errors.Is(err, jetstream.ErrStreamNotFound) && !any {
		return nil
	}
	if err == nil || any {
		s, err = e.topology.ensureNativeStreams(ctx)
	}
	if err != nil {
		return fmt.Errorf("take over native dispatches: %w", err)
	}
	msgs, err := scanNatives(ctx, e.cfg.Conn, s, e.cfg.Names)
	if err != nil {
		return fmt.Errorf("take over native dispatches: %w", err)
	}
	if err := l.adoptNativeMsgs(msgs, s.CachedInfo().State.LastSeq); err != nil {
		return fmt.Errorf("take over native dispatches: %w", err)
	}
	return nil
}

// scanNatives reads the headers of the native stream's messages, in order.
func scanNatives(ctx context.Context, nc *nats.Conn, s jetstream.Stream, names wire.Names) (msgs []nativeMsg, err error) {
	err = scanStream(ctx, nc, s, names, names.Native("*"), func(seq uint64, h nats.Header) error {
		stamps := h["Nats-Time-Stamp"] // the server's is the last
		if len(stamps) == 0 {
			return fmt.Errorf("message %d has no time", seq)
		}
		at, err := time.Parse(time.RFC3339Nano, stamps[len(stamps)-1])
		if err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		id, token, _ := dispatchedBy(h)
		msgs = append(msgs, nativeMsg{seq, at, id, token, leaseTold(h)})
		return nil
	})
	return msgs, err
}

// adoptNativeMsgs takes the messages that are their items' dispatch into the
// table, and has the others removed. Of two for one item the later counts.
func (l *loop) adoptNativeMsgs(msgs []nativeMsg, last uint64) error {
	newest := make(map[events.ID]uint64, len(msgs))
	for _, m := range msgs {
		newest[m.id] = m.seq
	}
	l.native.top = last
	for _, m := range msgs {
		d, err := l.adoptNative(m, newest[m.id] == m.seq)
		if err != nil {
			return err
		}
		if d == nil {
			l.native.done.put(m.seq)
			l.out.deleteNative(m.seq)
			continue
		}
		l.nativeStored(d, m.seq)
		d.lease = m.lease
		l.leases[d.typ] = max(l.ackWait(d.typ), m.lease) // see leasewait.go
		l.native.since = earliest(l.native.since, m.at.Add(-time.Second))
		if _, on := l.native.on[d.typ]; !on { // its type has another protocol by now
			l.native.on[d.typ] = nativeConsumer{}
		}
	}
	if len(l.native.on) > 0 {
		l.native.settling.until = l.clock.Now().Add(nativeSettle)
		l.makeNatives()
	}
	return nil
}

// adoptNative is the dispatch that a message is, nil if it is none any more: its
// item has moved on since.
func (l *loop) adoptNative(m nativeMsg, newest bool) (*dispatched, error) {
	if d := l.table.byToken[m.token]; d != nil && d.id == m.id && d.native {
		d.orphan = false
		delete(l.table.orphans, m.token)
		return d, nil
	}
	it, err := l.state.Item(m.id)
	if err != nil || it == nil || !newest || m.token == 0 {
		return nil, err
	}
	if it.State != events.StateQueued || it.Token == m.token || it.AvailableAt.After(l.clock.Due()) || l.table.byID[it.ID] != nil {
		return nil, nil
	}
	d := &dispatched{id: it.ID, token: m.token, typ: it.Type, lane: it.Lane(), group: it.Group, at: m.at, native: true}
	l.table.add(d)
	return d, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
