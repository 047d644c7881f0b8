package natsio

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// recipient is whom a parcel goes to.
type recipient struct {
	typ     events.Type
	session string
}

// parcel is a message of assigned items that is being filled.
type parcel struct {
	subject string
	body    []byte
}

// Assign adds a claimed item to the message for its worker. Items of a type that are claimed
// together go in one message, within wire.MaxAssignedBytes.
func (p *Pusher) Assign(d *table.Dispatch, it *events.Item, params []byte, left *wire.Left) {
	if p.filled > 0 && p.filled+len(params)+left.Size() >= wire.MaxAssignedBytes {
		p.FlushAssigned()
	}
	to := recipient{it.Type, d.Session}
	par := p.parcels[to]
	if par == nil {
		par = &parcel{subject: p.cfg.Names.RunOf(it.Type, d.Session)}
		p.parcels[to] = par
	}
	before := len(par.body)
	par.body = wire.AppendAssigned(par.body, &wire.Assigned{
		ID: it.ID.String(), Type: string(it.Type), Token: d.Token.String(), Attempt: int(it.Attempt), Lease: events.DurationOf(d.Lease),
		Timeout: events.DurationOf(it.Timeout), Trace: p.trace(it, d.Token), Labels: it.Labels, Left: *left, Params: params,
	})
	p.filled += len(par.body) - before
}

// FlushAssigned sends what Assign was given.
func (p *Pusher) FlushAssigned() {
	for to, par := range p.parcels {
		if len(par.body) == 0 {
			delete(p.parcels, to) // nothing has come since the last flush
			continue
		}
		if err := p.nc.Publish(par.subject, append(par.body, ']')); err != nil {
			level := slog.LevelDebug // they go back by their timers
			if errors.Is(err, nats.ErrMaxPayload) {
				level = slog.LevelError
			}
			p.log.Log(context.Background(), level, "assigned items could not be sent", "subject", par.subject, "bytes", len(par.body), "error", err)
		}
		if cap(par.body) > wire.MaxAssignedBytes {
			delete(p.parcels, to)
			continue
		}
		par.body = par.body[:0]
	}
	p.filled = 0
}
