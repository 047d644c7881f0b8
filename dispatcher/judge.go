package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// DedupHook is a host's word on which submissions are the same work, where keys
// can't say. It is asked before a submission reaches the loop, by several
// goroutines at once. What it answers enters with the submission, and is
// recorded.
//
// Submissions that are judged at the same time do not see each other.
type DedupHook interface {
	// Judge answers within ctx. An error, or a verdict that is none, means what
	// DedupConfig.Fallback says.
	Judge(ctx context.Context, q DedupQuestion) (events.Verdict, error)
}

// DedupQuestion is a submission, and the live items that it may be the same as:
// the last touched first, or by their keys if those were compared.
type DedupQuestion struct {
	Submission events.Submit
	Candidates []wire.Item
}

// The fallbacks of a dedup hook that gives no verdict.
const (
	DedupFallbackKey      = "key"      // as if there were no hook: by the dedup key
	DedupFallbackDistinct = "distinct" // it runs, whatever else does
)

// Bounds and defaults of the dedup hook.
const (
	DefaultDedupTimeout    = 2 * time.Second
	MaxDedupTimeout        = time.Minute
	DefaultDedupCandidates = 20
	MaxDedupCandidates     = 200

	maxQuestionBytes = 1 << 20 // of the candidates' params and results; beyond, they are left out
	maxJudged        = 16      // questions that are asked at once
	maxJudging       = 64      // requests whose submissions are being judged
)

// DedupConfig says when a host's dedup hook is asked.
type DedupConfig struct {
	Hook  DedupHook // nil: none
	Types []events.Type
	// Candidates is the most that a question has. 0: DefaultDedupCandidates.
	Candidates int
	// KeySeparator, if set, makes candidates of the items whose dedup key begins
	// like the submission's, up to the last separator in that; for those with
	// no such key, and if it is empty, of all live items of the type.
	KeySeparator string
	Timeout      time.Duration // 0: DefaultDedupTimeout
	Fallback     string        // empty: DedupFallbackKey
}

func (c DedupConfig) withDefaults() DedupConfig {
	if c.Candidates == 0 {
		c.Candidates = DefaultDedupCandidates
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultDedupTimeout
	}
	if c.Fallback == "" {
		c.Fallback = DedupFallbackKey
	}
	return c
}

func (c DedupConfig) validate() (errs []error) {
	if c.Candidates < 1 || c.Candidates > MaxDedupCandidates {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's candidates are %d: 1 to %d", c.Candidates, MaxDedupCandidates))
	}
	if c.Timeout < time.Millisecond || c.Timeout > MaxDedupTimeout {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's timeout is %s: 1ms to %s", c.Timeout, MaxDedupTimeout))
	}
	if c.Fallback != DedupFallbackKey && c.Fallback != DedupFallbackDistinct {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's fallback is %q: %s or %s", c.Fallback, DedupFallbackKey, DedupFallbackDistinct))
	}
	return errs
}

// judge asks the host about submissions. Safe for use by several goroutines.
type judge struct {
	cfg   *Config
	slots *semaphore.Weighted // maxJudged
}

func newJudge(cfg *Config) *judge { return &judge{cfg: cfg, slots: semaphore.NewWeighted(maxJudged)} }

// asks reports whether the hook is asked about submissions of a type.
func (j *judge) asks(t events.Type) bool {
	d := &j.cfg.Dedup
	return d.Hook != nil && (len(d.Types) == 0 || slices.Contains(d.Types, t))
}

// score fills in the host's score.
func (j *judge) score(c *events.Submit) {
	if j.cfg.scores(c.Type) && c.Score == nil {
		s := j.cfg.Score(*c)
		c.Score = &s
	}
}

// all has the submissions judged, as many at once as there is room for, and
// returns when that is done. ctx ends it early, by the fallback.
func (j *judge) all(ctx context.Context, cs []*events.Submit) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, c := range cs {
		if !j.asks(c.Type) {
			continue
		}
		if j.slots.Acquire(ctx, 1) != nil {
			c.Verdict = j.fallback("the engine is stopping")
			continue
		}
		wg.Go(func() {
			defer j.slots.Release(1)
			j.one(ctx, c)
		})
	}
}

// one asks about one submission.
func (j *judge) one(ctx context.Context, c *events.Submit) {
	d := &j.cfg.Dedup
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	candidates, err := j.candidates(c)
	if err == nil {
		var v events.Verdict
		if v, err = d.Hook.Judge(ctx, DedupQuestion{Submission: *c, Candidates: candidates}); err == nil {
			switch v.Policy {
			case events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer:
				v.Source = "hook"
				c.Verdict = &v
				return
			}
			err = fmt.Errorf("%q is no verdict: use merge, distinct, supersede or defer", v.Policy)
		}
	}
	j.cfg.Logger.Warn("the dedup hook gave no verdict", "type", c.Type, "error", err, "fallback", d.Fallback)
	c.Verdict = j.fallback(err.Error())
}

// fallback is the verdict in place of one that was not given.
func (j *judge) fallback(why string) *events.Verdict {
	if j.cfg.Dedup.Fallback == DedupFallbackDistinct {
		return &events.Verdict{Policy: events.DedupDistinct, Source: "fallback", Reason: why}
	}
	return nil
}

// candidates are what a submission may be the same as.
func (j *judge) candidates(c *events.Submit) ([]wire.Item, error) {
	d, room := &j.cfg.Dedup, maxQuestionBytes
	var ids []events.ID
	var err error
	if i := strings.LastIndex(c.DedupKey, d.KeySeparator); d.KeySeparator != "" && i >= 0 {
		ids, err = j.cfg.Store.DedupHolders(c.Type, c.DedupKey[:i+len(d.KeySeparator)], d.Candidates)
	} else {
		ids, err = j.live(c.Type)
	}
	if err != nil {
		return nil, err
	}
	items := make([]wire.Item, 0, len(ids))
	for _, id := range ids {
		it, found, err := j.cfg.Store.Full(id)
		if err != nil {
			return nil, err
		}
		if !found || it.State.Terminal() {
			continue
		}
		if room -= len(it.Params); room < 0 {
			it.Params = nil
		}
		items = append(items, it)
	}
	return items, nil
}

// live lists the live items of a type.
func (j *judge) live(t events.Type) (ids []events.ID, err error) {
	for _, st := range []events.ItemState{events.StateQueued, events.StateWaiting, events.StateClaimed, events.StateRunning} {
		left := j.cfg.Dedup.Candidates - len(ids)
		if left == 0 {
			break
		}
		page, err := j.cfg.Store.List(wire.List{State: st.String(), Type: string(t), Limit: left})
		if err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			id, err := events.ParseID(it.ID)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

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
	var ask []*events.Submit
	for i, cmd := range j.cmds {
		c, ok := cmd.(events.Submit)
		if !ok {
			continue
		}
		e.judge.score(&c)
		if j.cmds[i] = c; e.judge.asks(c.Type) {
			ask = append(ask, &c)
		} else {
			ask = append(ask, nil)
		}
	}
	if !slices.ContainsFunc(ask, func(c *events.Submit) bool { return c != nil }) {
		return false, nil
	}
	if err := e.judging.begin(ctx); err != nil {
		return true, err
	}
	go func() {
		defer e.judging.end()
		e.judge.all(e.drain, slices.DeleteFunc(slices.Clone(ask), func(c *events.Submit) bool { return c == nil }))
		n := 0
		for i, cmd := range j.cmds {
			if _, ok := cmd.(events.Submit); !ok {
				continue
			}
			if ask[n] != nil {
				j.cmds[i] = *ask[n]
			}
			n++
		}
		// It has been accepted, so it waits for its place without an end but the
		// engine's own.
		if err := e.enqueue(e.drain, e.submits, j, j.bytes()); err != nil {
			var refused *events.Error
			if !errors.As(err, &refused) {
				refused = errClosed
			}
			j.abandon(refused)
		}
	}()
	return true, nil
}

// judgeAll has a batch judged. Its order stays.
func (r *intakeReader) judgeAll(ctx context.Context, batch []*intakeMsg) {
	if r.judge == nil {
		return
	}
	var ask []*events.Submit
	for _, m := range batch {
		if m.err == nil {
			r.judge.score(&m.submit)
			ask = append(ask, &m.submit)
		}
	}
	r.judge.all(ctx, ask)
}
