package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of requests for the item of an intake message that is not decided yet.
const (
	// MaxUndecided bounds how many such requests wait at once: fewer than there may be
	// queries, so that others go on. More are answered at once.
	MaxUndecided = 128
	// decidedWithin bounds how long each waits. A message is decided within
	// milliseconds unless the engine is held up.
	decidedWithin = 2 * time.Second
)

// commits wakes callers that wait for a commit of the projection.
type commits struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next commit; nil: nobody waits
}

// wait returns a channel that is closed by the next commit.
func (c *commits) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

func (c *commits) happened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// idOfIntake returns the id of the item that a message of the intake became. Who
// publishes has the message's ack before the engine has decided it, so a message
// that is there is waited for, for decidedWithin.
func (a *itemAPI) idOfIntake(ctx context.Context, seq uint64) (events.ID, error) {
	if at, direct := wire.DirectPosition(seq); direct {
		return a.idOfDirect(ctx, at)
	}
	id, decided, err := a.decision(seq)
	if err != nil || decided {
		return id, err
	}
	select {
	case a.undecided <- struct{}{}:
		defer func() { <-a.undecided }()
	default:
		return id, a.errUndecided(seq)
	}
	within, cancel := context.WithTimeout(ctx, decidedWithin)
	defer cancel()
	stored, err := a.js.Stream(within, a.Names.IntakeStream())
	if err != nil {
		return id, a.errUndecided(seq)
	}
	if last := stored.CachedInfo().State.LastSeq; seq > last {
		return id, events.Refuse(events.CodeNotFound, "there is no intake message %d: %d is the last; use the sequence from the publish's ack", seq, last)
	}
	for {
		commit := a.commits.wait() // before the look, so that none is missed
		if id, decided, err = a.decision(seq); err != nil || decided {
			return id, err
		}
		if a.Full() != nil {
			return id, a.errUndecided(seq) // it is not read now
		}
		select {
		case <-commit:
		case <-within.Done():
			if ctx.Err() != nil {
				return id, ctx.Err()
			}
			return id, a.errUndecided(seq)
		}
	}
}

// idOfDirect returns the id of the item that a plain publish became which was decided at
// once, by an event that the log still has.
func (a *itemAPI) idOfDirect(ctx context.Context, at events.Seq) (id events.ID, err error) {
	_, rejected, err := a.Queries.RejectedOf(at)
	if err != nil {
		return id, err
	}
	if rejected {
		return id, events.Refuse(events.CodeNotFound, "the publish was rejected, by event %d: see why (engine rejected show %d), correct and replay it", at, at)
	}
	within, cancel := context.WithTimeout(ctx, decidedWithin)
	defer cancel()
	page, err := a.pages.Read(within, pages.Query{From: at, Limit: 1}, nil)
	var behind *eventlog.BehindError
	switch {
	case errors.As(err, &behind), err == nil && (len(page.Events) == 0 || page.Events[0].Seq != at):
		return id, events.Refuse(events.CodeNotFound, "the log has no event %d, or not any more: a publish is found by the sequence in its ack until the log is cut behind it; ask by its id", at)
	case err != nil:
		return id, fmt.Errorf("read event %d: %w", at, err)
	}
	ev := page.Events[0]
	if ev.ID.IsZero() {
		err = events.Refuse(events.CodeNotFound, "no item came of event %d: use the sequence from the publish's ack", at)
	}
	return ev.ID, err
}

// decision returns the item that a message of the intake became, whether that is
// decided, and the reason if it became none.
func (a *itemAPI) decision(seq uint64) (id events.ID, decided bool, err error) {
	meta, err := a.Queries.Meta() // first, since it advances
	if err != nil {
		return id, false, err
	}
	id, found, err := a.Queries.ByIntake(seq)
	if err != nil || found {
		return id, found, err
	}
	event, of, found, err := a.Queries.Answer(seq)
	switch {
	case err != nil:
		return id, false, err
	case !of.IsZero():
		return of, true, nil // a duplicate: what it repeats
	case found:
		return id, true, events.Refuse(events.CodeNotFound, "intake message %d was rejected, by event %d: see why (engine rejected show %d), correct and replay it", seq, event, event)
	case seq > meta.IntakeSeq:
		return id, false, nil
	}
	return id, true, events.Refuse(events.CodeNotFound, "no item came of intake message %d that is still known: its item is gone, or it was answered too long ago; its event says which (tail --kind rejected)", seq)
}

func (a *itemAPI) errUndecided(seq uint64) error {
	if f := a.Full(); f != nil {
		return events.Refuse(events.CodeNotFound, "intake message %d is not decided yet: the engine takes no new work for now: %s", seq, f.Why.Message)
	}
	return events.Refuse(events.CodeNotFound, "intake message %d is not decided yet: ask again", seq)
}

// idOf returns the id of the item that a request is for.
func (a *itemAPI) idOf(ctx context.Context, req wire.Get) (events.ID, error) {
	if req.ID != "" {
		return parseID(req.ID)
	}
	return a.idOfIntake(ctx, req.IntakeSeq)
}
