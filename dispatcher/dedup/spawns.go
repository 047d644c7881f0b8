package dedup

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// Bounds of asking about spawns.
const (
	// spawnPatience is the longest that a request with a spawn waits for its verdicts.
	// After it, the spawn alone is answered "unavailable" and the worker reports it again;
	// its other reports must not wait for a host.
	spawnPatience = 250 * time.Millisecond
	// maxSpawnAsking is the longest that the children of one spawn are asked about; the
	// fallback decides the rest.
	maxSpawnAsking = time.Minute
	// spawnKept is the time that verdicts are kept for their spawn to be reported again.
	spawnKept = 30 * time.Second
	// maxSpawnsKept bounds the spawns that are being asked about, or wait to be reported
	// again.
	maxSpawnsKept = 256
)

// Refusals of a spawn's report.
var (
	errAsking = events.Refuse(events.CodeUnavailable, "the dedup hook is still being asked about the children: report the spawn again")
	errFull   = events.Refuse(events.CodeUnavailable, "the engine has more requests than it can take: ask again later")
)

// spawns holds the spawns whose children are being asked about, or have been, until their
// reports are decided. It is safe for concurrent use.
type spawns struct {
	mu    sync.Mutex
	byRun map[spawnRun]*spawn
}

// spawnRun identifies the run that a spawn ends.
type spawnRun struct{ id, token, worker string }

func runOf(r *command.Report) spawnRun { return spawnRun{r.ID, r.Token, r.Worker} }

type spawn struct {
	sent     []wire.Submit // the children as they were reported
	children []core.Submit // with their verdicts once ready is closed
	group    *Group
	ready    chan struct{}
}

// find returns the spawn that a report belongs to. It makes it with begin if its children
// were not seen before, and returns nil if there are too many.
func (s *spawns) find(r *command.Report, begin func() *spawn) *spawn {
	key := runOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	had := s.byRun[key]
	if had != nil && reflect.DeepEqual(had.sent, r.Children) {
		return had
	}
	if had == nil && len(s.byRun) >= maxSpawnsKept {
		return nil
	}
	if s.byRun == nil {
		s.byRun = map[spawnRun]*spawn{}
	}
	if had != nil {
		had.group.End()
	}
	s.byRun[key] = begin()
	return s.byRun[key]
}

// drop forgets a spawn that is decided, or that its worker does not report again.
func (s *spawns) drop(key spawnRun, sp *spawn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRun[key] == sp {
		delete(s.byRun, key)
		sp.group.End()
	}
}

// AsksSpawn reports whether any of the reports is a spawn with a child that the
// hook is asked about.
func (a *Asker) AsksSpawn(reports []command.Report) bool {
	return a.cfg.Hook != nil && slices.ContainsFunc(reports, a.asksSpawn)
}

func (a *Asker) asksSpawn(r command.Report) bool {
	return slices.ContainsFunc(r.Submissions, func(c core.Submit) bool { return a.Asks(c.Type) })
}

// Spawns asks about the children of the spawns among some reports. It gives them their
// verdicts, or refuses a report whose verdicts are not there yet. The caller calls answered
// when the reports are decided.
func (a *Asker) Spawns(reports []command.Report) (refused map[int]*events.Error, answered func([]wire.Reported)) {
	ctx, cancel := context.WithTimeout(a.stopping, spawnPatience)
	defer cancel()
	refused = map[int]*events.Error{}
	ready := map[int]*spawn{}
	for i := range reports {
		r := &reports[i]
		if !a.asksSpawn(*r) {
			continue
		}
		current, err := a.runs(ctx, r)
		if err != nil {
			refused[i] = errAsking
			continue
		}
		if !current {
			continue // it will be refused, or was answered before
		}
		sp := a.spawned.find(r, func() *spawn { return a.askSpawn(r) })
		if sp == nil {
			refused[i] = errFull
			continue
		}
		select {
		case <-sp.ready:
			copy(r.Submissions, sp.children)
			ready[i] = sp
		case <-ctx.Done():
			refused[i] = errAsking
		}
	}
	return refused, func(answers []wire.Reported) {
		for i, sp := range ready {
			if err := answers[i].Error; err == nil || err.Code != events.CodeUnavailable {
				a.spawned.drop(runOf(&reports[i]), sp)
			}
		}
	}
}

// runs reports whether a report is of the present run of its item. The hook is not asked
// about the children of any other.
func (a *Asker) runs(ctx context.Context, r *command.Report) (bool, error) {
	id, err := events.ParseID(r.ID)
	if err != nil {
		return false, nil
	}
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return false, nil
	}
	if err := a.store.Await(ctx, a.position()); err != nil {
		return false, err
	}
	it, err := a.store.Item(id)
	return it != nil && it.Token == tok && (it.State == events.StateClaimed || it.State == events.StateRunning), err
}

// askSpawn begins to ask about the children of a spawn. Its caller is in a request that was
// begun.
func (a *Asker) askSpawn(r *command.Report) *spawn {
	sp := &spawn{sent: r.Children, children: slices.Clone(r.Submissions), ready: make(chan struct{})}
	sp.group = a.enterChildren(r.ID, sp.children)
	run := runOf(r)
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(a.stopping, maxSpawnAsking)
		defer cancel()
		sp.group.Ask(ctx)
		close(sp.ready)
		time.AfterFunc(spawnKept, func() { a.spawned.drop(run, sp) })
	})
	return sp
}

// Children asks about some of the children of a spawn that is made in parts. The caller
// ends the group once they are decided.
func (a *Asker) Children(ctx context.Context, parent events.ID, children []core.Submit) *Group {
	g := a.enterChildren(parent.String(), children)
	ctx, cancel := context.WithTimeout(ctx, maxSpawnAsking)
	defer cancel()
	g.Ask(ctx)
	return g
}

func (a *Asker) enterChildren(parent string, children []core.Submit) *Group {
	subs := make([]*core.Submit, len(children))
	for i := range children {
		subs[i] = &children[i]
	}
	return a.enter(subs, parent)
}
