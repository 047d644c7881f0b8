package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
)

// adoptNatives takes over what is on its way to native workers, or with them:
// unlike what waits for a claim it stays there, since a worker may have it. What
// became of it meanwhile is in the stream that captures the acks.
func (e *Engine) adoptNatives(ctx context.Context, l *loop) error {
	now := l.clock.Now()
	l.native.since = now.Add(-time.Second)
	any := false
	for _, t := range l.state.TypeNames() {
		if set, _ := l.state.Settings(t); set.Native() {
			l.native.on[t], any = ackmode.Consumer{}, true
		}
	}
	msgs, last, there, err := e.topology.AckMsgs(ctx, any)
	if err != nil {
		return fmt.Errorf("take over native dispatches: %w", err)
	}
	if !there {
		return nil
	}
	if err := l.adoptNativeMsgs(msgs, last); err != nil {
		return fmt.Errorf("take over native dispatches: %w", err)
	}
	return nil
}

// adoptNativeMsgs takes the messages that are their items' dispatch into the
// table, and has the others removed. Of two for one item the later counts.
func (l *loop) adoptNativeMsgs(msgs []natsio.AckMsg, last uint64) error {
	newest := make(map[events.ID]uint64, len(msgs))
	for _, m := range msgs {
		newest[m.ID] = m.Seq
	}
	l.native.top = last
	for _, m := range msgs {
		d, err := l.adoptNative(m, newest[m.ID] == m.Seq)
		if err != nil {
			return err
		}
		if d == nil {
			l.native.done.Put(m.Seq)
			l.out.DeleteNative(m.Seq)
			continue
		}
		l.nativeStored(d, m.Seq)
		d.lease = m.Lease
		l.leases[d.typ] = max(l.ackWait(d.typ), m.Lease) // see leasewait.go
		l.native.since = earliest(l.native.since, m.At.Add(-time.Second))
		if _, on := l.native.on[d.typ]; !on { // its type has another protocol by now
			l.native.on[d.typ] = ackmode.Consumer{}
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
func (l *loop) adoptNative(m natsio.AckMsg, newest bool) (*dispatched, error) {
	if d := l.table.byToken[m.Token]; d != nil && d.id == m.ID && d.native {
		d.orphan = false
		delete(l.table.orphans, m.Token)
		return d, nil
	}
	it, err := l.state.Item(m.ID)
	if err != nil || it == nil || !newest || m.Token == 0 {
		return nil, err
	}
	if it.State != events.StateQueued || it.Token == m.Token || it.AvailableAt.After(l.clock.Due()) || l.table.byID[it.ID] != nil {
		return nil, nil
	}
	d := &dispatched{id: it.ID, token: m.Token, typ: it.Type, lane: it.Lane(), group: it.Group, at: m.At, native: true}
	l.table.add(d)
	return d, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
