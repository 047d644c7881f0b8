package errands

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of errands.
const (
	maxErrands   = 64  // at once
	maxMakers    = 4   // of these, errands that hold the children of a spawn in memory
	partsAtOnce  = 8   // parts handed to the loop together
	membersPage  = 500 // items cancelled together
	errandPause  = time.Second
	roomPause    = 20 * time.Millisecond   // between two tries when the queue is full
	roomLooks    = 50                      // failed tries, until other errands have their turn
	maxPartBytes = wire.MaxWholeSpawnBytes // of the params of one part's children
)

// Config says how errands are done.
type Config struct {
	Store  *projector.Store
	Logger *slog.Logger
	NewID  func() events.ID
	// Decide has commands decided, in order, and returns an outcome for each.
	Decide func(context.Context, []core.Command) ([]Outcome, error)
	// Children reads the children of a spawn from the document that a report referred to.
	// nil: there is no object store.
	Children func(ctx context.Context, ref string) ([]core.Submit, error)
	// Ask asks the dedup hook about children of a parent.
	Ask func(ctx context.Context, parent events.ID, children []core.Submit) *dedup.Group
	// Ended makes the loop call [Errands.Ended].
	Ended func(context.Context, events.ID)
}

// Outcome is the result of a command.
type Outcome struct {
	Repeat bool  // it was decided before
	Err    error // an *events.Error when it was refused
}

// Errands runs the errands of one ownership of the partition.
type Errands struct {
	cfg    Config
	ctx    context.Context
	makers chan struct{}
	wait   sync.WaitGroup

	// Owned by the loop.
	busy map[events.ID]bool
	left bool // some found no room
}

// New returns the Errands of an ownership, which ends with ctx.
func New(ctx context.Context, cfg Config) *Errands {
	return &Errands{cfg: cfg, ctx: ctx, makers: make(chan struct{}, maxMakers), busy: map[events.ID]bool{}}
}

// Wait waits for the errands under way, which end with the ownership.
func (r *Errands) Wait() { r.wait.Wait() }

// Send starts an errand for an item, if the item needs one and has none. A nil Errands
// leaves it to the next owner. Called by the loop.
func (r *Errands) Send(it *events.Item) {
	if r == nil || it == nil || !it.NeedsFollowUp() || !it.Relations.InParts() || r.busy[it.ID] {
		return
	}
	var run func(context.Context) error
	switch rel := it.Relations; {
	case rel.Unmade():
		run = func(ctx context.Context) error { return r.makeChildren(ctx, it) }
	case it.State.Terminal() && rel.Live > 0:
		run = func(ctx context.Context) error { return r.endMembers(ctx, it) }
	default:
		return
	}
	if len(r.busy) >= maxErrands {
		r.left = true
		return
	}
	r.busy[it.ID] = true
	r.wait.Go(func() {
		if err := run(r.ctx); err != nil && r.ctx.Err() == nil {
			r.cfg.Logger.Warn("what belongs to an item is not done yet: going on shortly", "id", it.ID, "error", err)
			sleep.For(r.ctx, errandPause)
		}
		if r.ctx.Err() == nil {
			r.cfg.Ended(r.ctx, it.ID)
		}
	})
}

// Ended notes that an errand is over, and reports whether others found no room in the
// meantime; then the caller must look up again which items need one. Otherwise only this
// item may need another. Called by the loop.
func (r *Errands) Ended(id events.ID) (left bool) {
	delete(r.busy, id)
	left, r.left = r.left, false
	return left
}

// makeChildren makes the children of a spawn that are still missing.
func (r *Errands) makeChildren(ctx context.Context, it *events.Item) error {
	select {
	case r.makers <- struct{}{}:
		defer func() { <-r.makers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	rel := it.Relations
	children, err := r.children(ctx, rel.Pending)
	var refused *events.Error
	switch {
	case errors.As(err, &refused) && refused.Code != events.CodeUnavailable:
		return r.decide(ctx, core.SpawnPart{ID: it.ID, Spawn: rel.Spawns, Lost: refused.Message})
	case err != nil:
		return err
	case len(children) < rel.Declared:
		return r.decide(ctx, core.SpawnPart{ID: it.ID, Spawn: rel.Spawns, Lost: "the document has fewer of them than were declared"})
	}
	return r.makeParts(ctx, it, children[rel.Made:rel.Declared])
}

// makeParts makes the remaining children of a spawn, some parts at a time, after asking the
// dedup hook about them.
func (r *Errands) makeParts(ctx context.Context, it *events.Item, left []core.Submit) error {
	for len(left) > 0 {
		next := left[:min(len(left), partsAtOnce*events.SpawnPartSize)]
		for i := range next {
			next[i].NewID = r.cfg.NewID()
		}
		g := r.cfg.Ask(ctx, it.ID, next)
		over, err := r.makeSome(ctx, it, next, it.Relations.Declared-len(left))
		if g.End(); over || err != nil {
			return err
		}
		left = left[len(next):]
	}
	return nil
}

// makeSome makes more children of a spawn that has made of them already. If the queue has
// no room for a whole part, or a part is larger than a decision may be, it makes smaller ones,
// down to one child; if for a while there is no room even for that, it returns the refusal.
// over is as in decideParts.
func (r *Errands) makeSome(ctx context.Context, it *events.Item, left []core.Submit, made int) (over bool, err error) {
	for most, looks := events.SpawnPartSize, 0; len(left) > 0; {
		var cmds []core.Command
		for taken := 0; len(cmds) < partsAtOnce && taken < len(left); {
			next := cutPart(left[taken:], most)
			cmds = append(cmds, core.SpawnPart{ID: it.ID, Spawn: it.Relations.Spawns, From: made + taken, Children: next})
			taken += len(next)
		}
		done, over, err := r.decideParts(ctx, cmds)
		if over {
			return true, nil
		}
		if done > 0 {
			looks = 0
		}
		for _, c := range cmds[:done] {
			n := len(c.(core.SpawnPart).Children)
			left, made = left[n:], made+n
		}
		tooLarge := events.CodeOf(err) == events.CodeTooLarge
		if tooLarge {
			most = len(cmds[done].(core.SpawnPart).Children)
		}
		switch {
		case err == nil:
			most = min(2*most, events.SpawnPartSize)
		case tooLarge && most > 1:
			most /= 2
		case tooLarge:
			return true, r.decide(ctx, core.SpawnPart{ID: it.ID, Spawn: it.Relations.Spawns, Lost: err.Error()})
		case !noRoom(err) || looks >= roomLooks:
			return false, err
		case most > 1:
			most = max(most/4, 1)
		default:
			looks++
			sleep.For(ctx, roomPause)
		}
	}
	return false, nil
}

// decideParts has parts decided. It returns how many of them were made, and the refusal of
// the next. over says that a part was there already, or that the spawn has ended: then the
// remaining work must be looked up again.
func (r *Errands) decideParts(ctx context.Context, cmds []core.Command) (done int, over bool, err error) {
	outcomes, err := r.cfg.Decide(ctx, cmds)
	if err != nil {
		return 0, false, err
	}
	for _, o := range outcomes {
		if o.Err != nil || o.Repeat {
			return done, o.Err == nil, o.Err
		}
		done++
	}
	return done, false, nil
}

// noRoom reports whether a part was refused because the queue has no room.
func noRoom(err error) bool {
	code := events.CodeOf(err)
	return code == events.CodeQueueFull || code == events.CodeRateLimited
}

func (r *Errands) children(ctx context.Context, ref string) ([]core.Submit, error) {
	if r.cfg.Children == nil {
		return nil, events.Refuse(events.CodeUnavailable, "the engine has no object store to read children from")
	}
	return r.cfg.Children(ctx, ref)
}

// cutPart returns the next part of the children of a spawn: as many as one decision may
// make, at most most of them, and at least one.
func cutPart(children []core.Submit, most int) []core.Submit {
	bytes := 0
	for i := range children {
		if bytes += len(children[i].Params); i > 0 && (bytes > maxPartBytes || i == most) {
			return children[:i]
		}
	}
	return children
}

// endMembers cancels what belongs to an item that has ended. Nothing more is added to the
// item, so the projection's index has all of it once it has reached the item's end.
func (r *Errands) endMembers(ctx context.Context, it *events.Item) error {
	if err := r.cfg.Store.Await(ctx, it.Seq); err != nil {
		return err
	}
	for behind := (events.ID{}); ; {
		ids, err := r.cfg.Store.Children(it.ID, behind, membersPage)
		if err != nil || len(ids) == 0 {
			return err
		}
		cmds := make([]core.Command, len(ids))
		for i, id := range ids {
			cmds[i] = core.EndBatchItem{ID: id, Parent: it.ID}
		}
		if err := r.decide(ctx, cmds...); err != nil {
			return err
		}
		behind = ids[len(ids)-1]
	}
}

// decide has commands decided, in order, and returns the first refusal.
func (r *Errands) decide(ctx context.Context, cmds ...core.Command) error {
	outcomes, err := r.cfg.Decide(ctx, cmds)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}
