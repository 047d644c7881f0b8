package dispatcher

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// judging are the requests whose submissions are being judged.
type judging struct {
	room *semaphore.Weighted // maxJudging
	mu   sync.Mutex          // guards closed
	// closed: no request is taken in any more.
	closed bool
	wg     sync.WaitGroup
}

// begin takes a request in. It fails when the engine is stopping, or has too
// many until ctx ends.
func (g *judging) begin(ctx context.Context) error {
	if g.room.Acquire(ctx, 1) != nil {
		return errBusy
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.room.Release(1)
		return errClosed
	}
	g.wg.Add(1)
	return nil
}

func (g *judging) end() {
	g.room.Release(1)
	g.wg.Done()
}

// stop waits for those that are under way.
func (g *judging) stop() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}

// judged scores submissions and, if the hook is to be asked about any, has that
// done by a goroutine of its own, which then hands the job over. It reports
// whether it has taken the job.
func (e *Engine) judged(ctx context.Context, j *commandJob) (bool, error) {
	if e.cfg.Score == nil && e.cfg.Dedup.Hook == nil {
		return false, nil
	}
	j.cmds = slices.Clone(j.cmds)
	var subs []*core.Submit
	var places []int // of subs among the commands
	for i, cmd := range j.cmds {
		c, ok := cmd.(core.Submit)
		if !ok {
			continue
		}
		e.judge.score(&c)
		if j.cmds[i] = c; e.judge.asks(c.Type) {
			subs, places = append(subs, &c), append(places, i)
		}
	}
	if len(subs) == 0 {
		return false, nil
	}
	if err := e.judging.begin(ctx); err != nil {
		return true, err
	}
	g := e.judge.undecided.enter(subs, "")
	answer := j.done
	j.done = func(out []Outcome) {
		for n, i := range places {
			g.all[n].became = out[i].Decision.ID
		}
		g.end()
		answer(out)
	}
	go func() {
		defer e.judging.end()
		e.judge.all(e.drain, g)
		for n, i := range places {
			j.cmds[i] = *subs[n]
		}
		e.enqueueJudged(e.submits, j, j.bytes())
	}()
	return true, nil
}

// enqueueJudged hands over a job whose submissions were judged. It has been
// accepted, so it waits for its place without an end but the engine's own.
func (e *Engine) enqueueJudged(to inbox, j job, bytes int) {
	err := e.enqueue(e.drain, to, j, bytes)
	if err == nil {
		return
	}
	var refused *events.Error
	if !errors.As(err, &refused) {
		refused = errClosed
	}
	j.abandon(refused)
}

// judgeAll has a batch judged. Its order stays. The group is of those that the
// hook was asked about, nil if there are none; the batch's job ends it.
func (r *intakeReader) judgeAll(ctx context.Context, batch []*intakeMsg) *askedGroup {
	if r.judge == nil {
		return nil
	}
	var subs []*core.Submit
	var asked []*intakeMsg
	for _, m := range batch {
		if m.err != nil {
			continue
		}
		if r.judge.score(&m.submit); r.judge.asks(m.submit.Type) {
			subs, asked = append(subs, &m.submit), append(asked, m)
		}
	}
	if len(subs) == 0 {
		return nil
	}
	g := r.judge.undecided.enter(subs, "")
	for i, m := range asked {
		m.asked = g.all[i]
	}
	r.judge.all(ctx, g)
	return g
}
