package dispatcher

import (
	"context"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

// adoptAcks takes over the dispatches of ack types: a worker may have the message. The
// stream that captures the acks shows what became of them meanwhile.
func (d *Dispatcher) adoptAcks(ctx context.Context, l *loop) error {
	now := l.clock.Now()
	l.acks.since = now.Add(-time.Second)
	any := false
	for _, t := range l.state.TypeNames() {
		if set, _ := l.state.Settings(t); set.Ack() {
			l.acks.on[t], any = ackmode.Consumer{}, true
		}
	}
	msgs, last, there, err := d.topology.AckMsgs(ctx, any)
	if err != nil {
		return fmt.Errorf("take over the dispatch stream: %w", err)
	}
	if !there {
		return nil
	}
	if err := l.acks.adoptMsgs(msgs, last); err != nil {
		return fmt.Errorf("take over the dispatch stream: %w", err)
	}
	return nil
}

// adoptMsgs adds the messages that are their item's dispatch to the table, and
// removes the others. Of two for one item the later counts.
func (a *ackRuns) adoptMsgs(msgs []natsio.AckMsg, last uint64) error {
	newest := make(map[events.ID]uint64, len(msgs))
	for _, m := range msgs {
		newest[m.ID] = m.Seq
	}
	a.top = last
	for _, m := range msgs {
		d, err := a.adoptAck(m, newest[m.ID] == m.Seq)
		if err != nil {
			return err
		}
		if d == nil {
			a.done.Put(m.Seq)
			a.out.DeleteAck(m.Seq)
			continue
		}
		a.stored(d, m.Seq)
		d.Lease = m.Lease
		a.since = earliest(a.since, m.At.Add(-time.Second))
		if _, on := a.on[d.Type]; !on { // the type has another protocol by now
			a.on[d.Type] = ackmode.Consumer{}
		}
	}
	if len(a.on) > 0 {
		a.settling.until = a.clock.Now().Add(ackSettle)
		a.makeAll()
	}
	return nil
}

// adoptAck returns the dispatch that a message belongs to, nil if its item has moved on.
func (a *ackRuns) adoptAck(m natsio.AckMsg, newest bool) (*table.Dispatch, error) {
	if d := a.table.ByToken[m.Token]; d != nil && d.ID == m.ID && d.Ack {
		a.table.Unlease(d)
		return d, nil
	}
	it, err := a.state.Item(m.ID)
	if err != nil || it == nil || !newest || m.Token == 0 {
		return nil, err
	}
	if it.State != events.StateQueued || it.Token == m.Token || !a.clock.Reached(it.AvailableAt) || a.table.ByID[it.ID] != nil {
		return nil, nil
	}
	d := &table.Dispatch{ID: it.ID, Token: m.Token, Type: it.Type, Group: it.Group, Priority: it.Priority, At: m.At, Ack: true}
	a.table.Add(d)
	return d, nil
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
