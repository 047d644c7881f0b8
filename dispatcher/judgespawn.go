package dispatcher

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of the judgement of spawns.
const (
	// spawnPatience is how long a request with a spawn waits for its verdicts.
	// Beyond, the spawn alone is answered "unavailable": workers report it again,
	// and their other reports must not wait for a host.
	spawnPatience = 250 * time.Millisecond
	// maxSpawnJudging is how long the children of one spawn are asked about; the
	// fallback decides the rest.
	maxSpawnJudging = time.Minute
	// spawnKept is how long verdicts wait for their spawn to be reported again.
	spawnKept = 30 * time.Second
	// maxSpawnsKept bounds the spawns that are judged, or wait to be reported again.
	maxSpawnsKept = 256
)

// errJudging answers a spawn whose children are still being judged.
var errJudging = events.Refuse(events.CodeUnavailable, "the dedup hook is still being asked about the children: report the spawn again")

// judgedSpawns are the spawns whose children are being judged, or were, until
// their reports are decided. Safe for use by several goroutines.
type judgedSpawns struct {
	mu    sync.Mutex
	byRun map[spawnRun]*judgedSpawn
}

// spawnRun is the run that a spawn ends.
type spawnRun struct{ id, token, worker string }

// judgedSpawn is a spawn among the judged ones.
type judgedSpawn struct {
	sent     []wire.Submit // the children as they were reported
	children []core.Submit // with their verdicts once ready is closed
	group    *askedGroup
	ready    chan struct{}
}

// find returns the spawn that a report is of, making it with begin if its
// children were not seen before; nil if there are too many.
func (s *judgedSpawns) find(r *wire.Report, begin func() *judgedSpawn) *judgedSpawn {
	key := spawnRun{r.ID, r.Token, r.Worker}
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
		s.byRun = map[spawnRun]*judgedSpawn{}
	}
	if had != nil {
		had.group.end()
	}
	s.byRun[key] = begin()
	return s.byRun[key]
}

// drop forgets a spawn: it is decided, or its worker does not report it again.
func (s *judgedSpawns) drop(r *wire.Report, sp *judgedSpawn) {
	key := spawnRun{r.ID, r.Token, r.Worker}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRun[key] == sp {
		delete(s.byRun, key)
		sp.group.end()
	}
}

// spawns are the places of the reports of spawns with a child that the hook is
// asked about.
func (j *judge) spawns(reports []wire.Report) (places []int) {
	for i := range reports {
		for _, c := range reports[i].Submissions() {
			if j.asks(c.Type) {
				places = append(places, i)
				break
			}
		}
	}
	return places
}

// reportJudged has the children of spawns judged and hands the job over, by a
// goroutine of its own.
func (e *Engine) reportJudged(ctx context.Context, j *reportJob, places []int) error {
	if err := e.judging.begin(ctx); err != nil {
		return err
	}
	go func() {
		defer e.judging.end()
		ctx, cancel := context.WithTimeout(e.drain, spawnPatience)
		defer cancel()
		j.refused = map[int]*events.Error{}
		spawns := map[int]*judgedSpawn{}
		for _, i := range places {
			r := &j.reports[i]
			current, err := e.runs(ctx, r)
			if err != nil {
				j.refused[i] = errJudging
				continue
			}
			if !current {
				continue // it is refused, or has been answered before
			}
			sp := e.judge.spawned.find(r, func() *judgedSpawn { return e.judgeSpawn(r) })
			if sp == nil {
				j.refused[i] = errBusy
				continue
			}
			select {
			case <-sp.ready:
				copy(r.Submissions(), sp.children)
				spawns[i] = sp
			case <-ctx.Done():
				j.refused[i] = errJudging
			}
		}
		answer := j.done
		j.done = func(answers []wire.Reported) {
			for i, sp := range spawns {
				if err := answers[i].Error; err == nil || err.Code != events.CodeUnavailable {
					e.judge.spawned.drop(&j.reports[i], sp)
				}
			}
			answer(answers)
		}
		e.enqueueJudged(e.requests, j, j.bytes())
	}()
	return nil
}

// runs reports whether a report is of the present run of its item. Nobody is asked
// about the children of any other.
func (e *Engine) runs(ctx context.Context, r *wire.Report) (bool, error) {
	id, err := events.ParseID(r.ID)
	if err != nil {
		return false, nil
	}
	tok, err := wire.ParseToken(r.Token)
	if err != nil {
		return false, nil
	}
	if err := e.cfg.Store.Await(ctx, e.Position()); err != nil {
		return false, err
	}
	it, err := e.cfg.Store.Item(id)
	return it != nil && it.Token == tok && (it.State == events.StateClaimed || it.State == events.StateRunning), err
}

// judgeSpawn begins to judge the children of a spawn. The caller is under way
// itself (see judging).
func (e *Engine) judgeSpawn(r *wire.Report) *judgedSpawn {
	sp := &judgedSpawn{sent: r.Children, children: append([]core.Submit(nil), r.Submissions()...), ready: make(chan struct{})}
	sp.group = e.judge.enterChildren(r.ID, sp.children)
	of := wire.Report{ID: r.ID, Token: r.Token, Worker: r.Worker}
	e.judging.wg.Go(func() {
		ctx, cancel := context.WithTimeout(e.drain, maxSpawnJudging)
		defer cancel()
		e.judge.all(ctx, sp.group)
		close(sp.ready)
		time.AfterFunc(spawnKept, func() { e.judge.spawned.drop(&of, sp) })
	})
	return sp
}

// judgeChildren has some of the children judged that are made in parts. The caller
// ends the group once they are decided.
func (e *Engine) judgeChildren(ctx context.Context, parent events.ID, children []core.Submit) *askedGroup {
	g := e.judge.enterChildren(parent.String(), children)
	ctx, cancel := context.WithTimeout(ctx, maxSpawnJudging)
	defer cancel()
	e.judge.all(ctx, g)
	return g
}

// enterChildren takes in those children of a spawn that the hook is asked about.
func (j *judge) enterChildren(parent string, children []core.Submit) *askedGroup {
	var subs []*core.Submit
	for i := range children {
		if c := &children[i]; j.asks(c.Type) {
			subs = append(subs, c)
		}
	}
	return j.undecided.enter(subs, parent)
}
