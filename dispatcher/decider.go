package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// decider decides commands for the loop and its parts, and adds their events to the batch
// being built.
type decider struct {
	state *core.State
	clock *clock.Clock
	pipe  *pipeline
	// added is called with each event that was added to the batch, once its decision is
	// applied.
	added func(ev *events.Event)
	// followUps is called with the items that need a follow-up because of events up to
	// applied.
	followUps func(ids []events.ID, applied events.Seq)

	tokens uint64 // given out in this epoch
}

// decide decides one command against everything decided before it, and adds its events to
// the batch. A refusal is an *events.Error; any other error stops the partition. It returns
// the decision's item, nil for none.
func (d *decider) decide(c core.Command) (core.Decision, *events.Item, error) {
	dec, err := core.Decide(d.state, c, d.clock.Now())
	nothing := len(dec.Events) == 0
	if err == nil {
		err = d.apply(&dec)
	}
	if err != nil || nothing {
		d.pipe.building.confirm = true
	}
	if err != nil {
		d.pipe.outflow.RetryAfter(err, d.clock.Now())
		return dec, nil, err
	}
	if dec.ID.IsZero() {
		return dec, nil, nil
	}
	it, err := d.state.Item(dec.ID)
	return dec, it, err
}

// apply adds a decision to the batch, and reports its follow-ups. It errs, and does nothing,
// if the decision does not fit: see pipeline.fits.
func (d *decider) apply(dec *core.Decision) error {
	bytes, err := d.pipe.fits(dec.Events)
	if err != nil {
		return err
	}
	if err := d.pipe.add(dec.Events, bytes); err != nil {
		return err
	}
	for i := range dec.Events {
		d.added(&dec.Events[i])
	}
	dec.Events = nil
	d.followUps(d.state.TakeFollowUps(), d.state.Meta().Applied)
	return nil
}

// room reports whether one more decision fits into the batch.
func (d *decider) room() bool { return d.pipe.room() }

// token returns a token that this ownership has not given out before.
func (d *decider) token() events.Token {
	d.tokens++
	return events.NewToken(d.state.Meta().Epoch, d.tokens)
}

// grant has a claimed item sent to its worker once the batch is durable.
func (d *decider) grant(to *table.Dispatch) {
	d.pipe.building.granted = append(d.pipe.building.granted, to)
}

// appendTime returns how long the last append took.
func (d *decider) appendTime() time.Duration { return d.pipe.took }
