package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/events/eventlog"
	"github.com/streamwright/streamwright/projector"
)

// cut goes on with the round under way, or begins one.
func (k *retention) cut(now time.Time) error {
	switch k.phase {
	case cutIdle:
		if !k.asked || !k.mayRetain() {
			return nil
		}
		if _, _, err := k.l.decide(core.BeginCut{}); err != nil {
			return err // it is never refused to an owner
		}
		*k = retention{l: k.l, lists: k.lists, place: k.place, nextPass: k.nextPass, soonest: k.soonest, held: k.held, heldLast: k.heldLast, first: k.first,
			phase: cutBegun, began: k.l.state.Meta().RoundAt}
	case cutBegun:
		// What was created before the round must be found in the projection.
		if k.l.cfg.Store.Applied() >= k.began {
			k.phase = cutCarries
			return k.carry(now)
		}
	case cutCarries:
		return k.carry(now)
	case cutSyncs:
		if k.l.appended < k.end {
			return nil
		}
		if k.nextCut.IsZero() {
			k.nextCut = now.Add(k.l.cfg.SyncWithin)
		}
		if clock.Passed(k.nextCut, now) {
			k.phase, k.nextCut = cutCuts, now.Add(cutTimeout+recutAfter)
			k.l.out.CutLog(k.began)
		}
	case cutCuts:
		if clock.Passed(k.nextCut, now) {
			k.nextCut = now.Add(cutTimeout + recutAfter)
			k.l.out.CutLog(k.began)
		}
	}
	return nil
}

// cutDone notes that the log has been cut.
func (k *retention) cutDone(below events.Seq) {
	k.first = max(k.first, below)
	if k.phase == cutCuts && below >= k.began {
		k.phase, k.nextCut = cutIdle, time.Time{}
	}
}

// carry carries items of the round, and ends it when all are.
func (k *retention) carry(now time.Time) error {
	k.later = append(k.later, k.l.state.TakeRecarry()...)
	if !k.scanned && len(k.later) < maxLater && k.mayRetain() {
		ids, at, more, err := k.l.cfg.Store.Uncarried(k.began, k.scan, retainPage)
		if err != nil {
			return err
		}
		k.later, k.scan, k.scanned = append(k.later, ids...), at, !more
	}
	moved := false
	var wait []events.ID
	for i, id := range k.later {
		if !k.mayRetain() {
			wait = append(wait, k.later[i:]...)
			moved = true // as far as it may
			break
		}
		done, err := k.carryOne(id)
		if err != nil {
			return err
		}
		if !done {
			wait = append(wait, id)
		}
		moved = moved || done
	}
	k.later = wait
	switch {
	case len(k.later) == 0 || moved:
		k.waiting, k.quiet = time.Time{}, false
	case k.waiting.IsZero():
		k.waiting = now
	case !now.Before(k.waiting.Add(carryPatience)):
		k.quiet = true
	}
	if !k.scanned || len(k.later) > 0 {
		return nil
	}
	if !k.rejected.done {
		return k.carryRejected()
	}
	return k.endRound()
}

// carryOne carries an item, unless the projection does not have all of it yet,
// or the batch has no room for it.
func (k *retention) carryOne(id events.ID) (bool, error) {
	if !k.l.state.Projectable(id) {
		return false, nil
	}
	it, err := k.l.state.Item(id)
	if err != nil || it == nil || it.BaseSeq >= k.began {
		return err == nil, err
	}
	history, merged, err := k.l.cfg.Store.Kept(id)
	if err != nil {
		return false, err
	}
	return k.decideLarge(core.Carry{ID: id, History: history, Merged: merged})
}

// endRound ends the round, if the batch has room for its end.
func (k *retention) endRound() error {
	if again := k.l.state.TakeRecarry(); len(again) > 0 {
		k.later = again
		return nil
	}
	keys, err := k.l.cfg.Store.LooseKeys()
	if err != nil {
		return err
	}
	kept, err := k.l.cfg.Store.RejectedKept(k.began)
	if err != nil {
		return err
	}
	done, err := k.decideLarge(core.EndCut{Keys: keys, Kept: &kept})
	if err != nil || !done {
		return err
	}
	k.phase, k.end = cutSyncs, k.l.state.Meta().CutEnd
	return nil
}

// decideLarge decides what may make more events than a batch has room for; it
// is put off then. When it is refused the round is given up.
func (k *retention) decideLarge(c core.Command) (done bool, err error) {
	dec, err := core.Decide(k.l.state, c, k.l.clock.Now())
	if fatal(err) != nil {
		return false, err
	}
	if err != nil {
		k.l.log.Error("the log can't be cut now: trying again when it has grown further", "error", err)
		k.phase, k.asked, k.later, k.quiet, k.scanned = cutIdle, false, nil, false, false
		return false, nil
	}
	if len(k.l.building.events)+len(dec.Events) > eventlog.MaxAppend {
		return false, nil
	}
	return true, k.l.add(dec.Events)
}

func carriedBytes(c *events.Carried) int {
	n := overhead
	for _, d := range c.Documents {
		n += len(d.Data)
	}
	for _, h := range c.History {
		n += len(h.Data)
	}
	return n + 256*len(c.Merged)
}

// cutBelow cuts the log. First the projection is flushed: after a crash it would
// else have to be made anew from what the log has left.
func (c *Config) cutBelow(ctx context.Context, below events.Seq) error {
	ctx, cancel := context.WithTimeout(ctx, cutTimeout)
	defer cancel()
	if err := c.Store.Flush(); err != nil {
		return err
	}
	return c.Log.Purge(ctx, below)
}

// renewIfCut makes the projection anew if the log has been cut in front of its
// position: it lacks what came in between.
func renewIfCut(ctx context.Context, cfg *Config, tip eventlog.Tip) error {
	at := cfg.Store.Applied()
	if at == 0 || tip.First <= at+1 {
		return nil
	}
	cfg.Logger.Warn("the log has been cut in front of the projection: making it anew", "position", at, "first", tip.First)
	err := cfg.Store.Renew(ctx, cfg.Log, tip.Seq, nil)
	if errors.Is(err, projector.ErrBeforeCut) {
		err = fmt.Errorf("the round of snapshots at the head of the log does not end: %w: %w", events.ErrCorrupt, err)
	}
	if err == nil && cfg.Hooks.Renewed != nil {
		cfg.Hooks.Renewed(cfg.Store.Applied())
	}
	return err
}

// keptPlace is how far a round has come in re-stating what is kept of
// submissions that became no item.
type keptPlace struct {
	next    events.Seq // of the rejected submissions; 0 with begun: all are
	answers uint64     // of the messages of the intake stream, likewise
	begun   bool
	done    bool
}

// carryRejected re-states the next pages of what was rejected, as far as the
// batch has room. What the projection does not know of them yet, the State does.
func (k *retention) carryRejected() error {
	p := &k.rejected
	if !p.begun {
		*p = keptPlace{next: 1, answers: 1, begun: true}
	}
	for (p.next > 0 || p.answers > 0) && k.mayRetain() {
		var c core.CarryRejected
		at, err := *p, error(nil)
		if p.next > 0 {
			if c.Rejected, at.next, err = k.l.cfg.Store.KeptRejected(p.next, k.began, keptPageBytes); err != nil {
				return err
			}
		}
		if p.answers > 0 {
			if c.Answers, at.answers, err = k.l.cfg.Store.KeptAnswers(p.answers, k.began, keptPageAnswers); err != nil {
				return err
			}
		}
		done, err := k.decideLarge(c)
		if err != nil || !done || k.phase != cutCarries {
			return err // the batch has no room for it, or the round was given up
		}
		*p = at
	}
	p.done = p.next == 0 && p.answers == 0
	return nil
}

// snapshotBytes is about how large a snapshot is.
func snapshotBytes(b *events.Snapshot) int {
	const record, answer = 128, 80
	n := overhead + record*(len(b.Records)+len(b.Keys)) + answer*len(b.Answers)
	for i := range b.Rejected {
		n += int(b.Rejected[i].Size) + record
	}
	return n
}
