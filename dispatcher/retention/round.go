package retention

import (
	"errors"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// cut continues the round under way, or begins one.
func (k *Retention) cut(now time.Time) error {
	switch k.phase {
	case idle:
		if n, _ := k.Batch.Size(); !k.asked || n > 0 {
			return nil // the log is cut at a frame, which the round therefore begins
		}
		if _, err := k.Batch.Decide(core.BeginCut{}); err != nil {
			return err // it is never refused to an owner
		}
		k.asked, k.phase, k.round = false, begun, round{began: k.State.Meta().RoundAt}
	case begun:
		// The projection must show everything created before the round.
		if k.Store.Applied() >= k.round.began {
			k.phase = carries
			return k.carry(now)
		}
	case carries:
		return k.carry(now)
	case syncs:
		// The end of the round may be in parts, of which the last comes in a later batch.
		if m := k.State.Meta(); m.CutAt != k.round.began || k.Appended() < m.CutEnd {
			return nil
		}
		if k.round.nextCut.IsZero() {
			k.round.nextCut = now.Add(k.SyncWithin)
		}
		if clock.Passed(k.round.nextCut, now) {
			k.phase, k.round.nextCut = cuts, now.Add(CutTimeout+recutAfter)
			k.CutLog(k.round.began.Frame())
		}
	case cuts:
		if clock.Passed(k.round.nextCut, now) {
			k.round.nextCut = now.Add(CutTimeout + recutAfter)
			k.CutLog(k.round.began.Frame())
		}
	}
	return nil
}

// CutDone notes that the log has been cut below a frame.
func (k *Retention) CutDone(below uint64) {
	if m := k.State.Meta(); below == m.CutAt.Frame() {
		k.first, k.gone = m.CutAt, m.CutBefore
	}
	if k.phase == cuts && below >= k.round.began.Frame() {
		k.phase, k.round.nextCut = idle, time.Time{}
	}
}

// carry carries items of the round, and ends the round when all are carried.
func (k *Retention) carry(now time.Time) error {
	k.round.later = append(k.round.later, k.State.TakeRecarry()...)
	if !k.round.scanned && len(k.round.later) < maxLater && k.mayRetain() {
		ids, at, more, err := k.Store.Uncarried(k.round.began, k.round.scan, retainPage)
		if err != nil {
			return err
		}
		k.round.later, k.round.scan, k.round.scanned = append(k.round.later, ids...), at, !more
	}
	moved := false
	var wait []events.ID
	for i, id := range k.round.later {
		if !k.mayRetain() {
			wait = append(wait, k.round.later[i:]...)
			moved = true // as far as allowed
			break
		}
		done, err := k.carryOne(id)
		if err != nil || k.phase != carries { // the round was given up
			return err
		}
		if !done {
			wait = append(wait, id)
		}
		moved = moved || done
	}
	k.round.later = wait
	switch {
	case len(k.round.later) == 0 || moved:
		k.round.waiting, k.round.quiet = time.Time{}, false
	case k.round.waiting.IsZero():
		k.round.waiting = now
	case !now.Before(k.round.waiting.Add(carryPatience)):
		k.round.quiet = true
	}
	if !k.round.scanned || len(k.round.later) > 0 {
		return nil
	}
	if !k.round.rejected.done {
		return k.carryRejected()
	}
	return k.endRound()
}

// carryOne carries an item, unless the projection lacks part of it, or the batch has no
// room for it.
func (k *Retention) carryOne(id events.ID) (bool, error) {
	if !k.State.Projectable(id) {
		return false, nil
	}
	it, err := k.State.Item(id)
	if err != nil || it == nil || it.BaseSeq >= k.round.began {
		return err == nil, err
	}
	history, merged, err := k.Store.Kept(id)
	if err != nil {
		return false, err
	}
	return k.decideLarge(core.Carry{ID: id, History: history, Merged: merged})
}

// endRound ends the round, if the batch has room for its end.
func (k *Retention) endRound() error {
	if again := k.State.TakeRecarry(); len(again) > 0 {
		k.round.later = again
		return nil
	}
	keys, err := k.Store.LooseKeys()
	if err != nil {
		return err
	}
	kept, err := k.Store.RejectedFrom(k.round.began)
	if err != nil {
		return err
	}
	done, err := k.decideLarge(core.EndCut{Keys: keys, Kept: &kept})
	if err != nil || !done {
		return err
	}
	k.phase = syncs
	return nil
}

// decideLarge decides a command that may make more events than a batch has room for. If the
// batch has too many already, it is put off; if the command is refused, the round is given
// up.
func (k *Retention) decideLarge(c core.Command) (done bool, err error) {
	dec, err := core.Decide(k.State, c, k.Clock.Now())
	var refused *events.Error
	if err != nil && !errors.As(err, &refused) {
		return false, err
	}
	if err != nil {
		k.Log.Error("the log can't be cut now: trying again when it has grown further", "error", err)
		k.phase, k.asked = idle, false
		k.round.later, k.round.quiet, k.round.scanned = nil, false, false
		return false, nil
	}
	if !k.mayRetain() {
		return false, nil
	}
	return true, k.Batch.Add(dec.Events)
}

// keptPlace is a round's progress in re-stating submissions that became no item.
type keptPlace struct {
	next    events.Seq // next rejected submission; 0 with begun: all are done
	answers uint64     // next answered intake message, likewise
	begun   bool
	done    bool
}

// carryRejected re-states the next pages of rejected submissions, while the batch has room.
// The State adds those that the projection does not know yet.
func (k *Retention) carryRejected() error {
	p := &k.round.rejected
	if !p.begun {
		*p = keptPlace{next: 1, answers: 1, begun: true}
	}
	for (p.next > 0 || p.answers > 0) && k.mayRetain() {
		var c core.CarryRejected
		at, err := *p, error(nil)
		if p.next > 0 {
			if c.Rejected, at.next, err = k.Store.KeptRejected(p.next, k.round.began, keptPageBytes); err != nil {
				return err
			}
		}
		if p.answers > 0 {
			if c.Answers, at.answers, err = k.Store.KeptAnswers(p.answers, k.round.began, keptPageAnswers); err != nil {
				return err
			}
		}
		done, err := k.decideLarge(c)
		if err != nil || !done || k.phase != carries {
			return err // the batch has no room for it, or the round was given up
		}
		*p = at
	}
	p.done = p.next == 0 && p.answers == 0
	return nil
}
