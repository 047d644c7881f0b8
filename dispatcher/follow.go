package dispatcher

import (
	"context"
	"errors"

	"github.com/streamwright/streamwright/dispatcher/errands"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// Bounds of the follow-ups in memory. Beyond maxFollowUps they are left to the projection's
// index, and paged in from there when those in memory are done.
const (
	maxFollowUps = 1 << 16
	followPage   = 256
)

// followShare is the number of events of a batch that follow-ups may fill, so that a large
// tree leaves room for reports and submissions.
const followShare = eventlog.MaxEvents / 2

// followUps holds the items that need a follow-up. Owned by the loop.
type followUps struct {
	*decider
	store   *projector.Store
	halt    *halt
	errands *errands.Errands // nil: they are left to the next owner

	ids     []events.ID
	looking bool      // the index must still be read
	behind  events.ID // from there on
	from    events.Seq
}

// add takes in the follow-ups that an applied event has made necessary.
func (f *followUps) add(ids []events.ID, applied events.Seq) {
	if len(ids) > 0 && len(f.ids)+len(ids) > maxFollowUps {
		f.lookFrom(applied)
		return
	}
	f.ids = append(f.ids, ids...)
}

// lookFrom has the index read from its beginning, once the projection has reached applied.
func (f *followUps) lookFrom(applied events.Seq) {
	f.looking, f.behind, f.from = true, events.ID{}, applied
}

func (f *followUps) waits() bool { return len(f.ids) > 0 || f.looking }

func (f *followUps) pop() {
	if f.ids = f.ids[1:]; len(f.ids) == 0 {
		f.ids = nil
	}
}

// decide decides the follow-ups of items, while the batch has room: normally in the batch
// of their cause. Each is repeated until there is nothing more to do.
func (f *followUps) decide() error {
	if !f.waits() || f.halt.on() {
		return nil
	}
	for {
		if len(f.ids) == 0 {
			if more, err := f.page(); err != nil || !more {
				return err
			}
			continue
		}
		c := core.FollowUp{ID: f.ids[0]}
		if !f.pipe.roomFor(core.MaxEvents(c), followShare) {
			return nil
		}
		dec, err := core.Decide(f.state, c, f.clock.Now())
		if err != nil {
			return err // it is never refused
		}
		if len(dec.Events) == 0 {
			f.pop()
			if err := f.sendErrand(c.ID); err != nil {
				return err
			}
			continue
		}
		switch err := f.apply(&dec); {
		case errors.Is(err, errNoRoom):
			return nil // the next batch has it
		case err != nil:
			return err
		}
	}
}

// sendErrand starts the errand of an item, if it needs more than follow-ups.
func (f *followUps) sendErrand(id events.ID) error {
	it, err := f.state.Item(id)
	if err == nil {
		f.errands.Send(it)
	}
	return err
}

// page takes in the next part of the index, and reports whether there may be more.
func (f *followUps) page() (more bool, err error) {
	if !f.looking || f.store.Applied() < f.from {
		return false, nil
	}
	ids, err := f.store.FollowUps(f.behind, followPage)
	if err != nil {
		return false, err
	}
	if f.looking = len(ids) == followPage; len(ids) > 0 {
		f.behind = ids[len(ids)-1]
	}
	f.ids = append(f.ids, ids...)
	return len(ids) > 0, nil
}

// newErrands makes the errands of an ownership, which ends with ctx.
func (d *Dispatcher) newErrands(ctx context.Context) *errands.Errands {
	var r *errands.Errands
	r = errands.New(ctx, errands.Config{
		Store: d.cfg.Store, Logger: d.cfg.Logger, NewID: d.NewID, Children: d.cfg.Children, Ask: d.dedup.Children,
		Decide: func(ctx context.Context, cmds []core.Command) ([]errands.Outcome, error) {
			if part, ok := cmds[0].(core.SpawnPart); ok && part.Lost == "" {
				if full := d.halt.noRoom(); full != nil {
					return nil, full
				}
			}
			outcomes, err := d.all(ctx, cmds)
			out := make([]errands.Outcome, len(outcomes))
			for i, o := range outcomes {
				out[i] = errands.Outcome{Repeat: o.Decision.Repeat, Err: o.Err}
			}
			return out, err
		},
		Ended: func(ctx context.Context, id events.ID) {
			_, _ = ask(ctx, d, func(l *loop) (struct{}, error) { // refused only when the ownership ends
				l.follow.errandEnded(r, id)
				return struct{}{}, nil
			})
		},
	})
	return r
}

// errandEnded looks again at what an item needs after its errand.
func (f *followUps) errandEnded(of *errands.Errands, id events.ID) {
	switch applied := f.state.Meta().Applied; {
	case f.errands != of: // of an earlier ownership
	case of.Ended(id):
		f.lookFrom(applied)
	default:
		f.add([]events.ID{id}, applied) // it may need another
	}
}
