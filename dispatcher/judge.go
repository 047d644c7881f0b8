package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// DedupHook is a host's word on which submissions are the same work, where keys
// can't say. It is asked before a submission reaches the loop, by several
// goroutines at once. What it answers enters with the submission, and is
// recorded.
type DedupHook interface {
	// Judge answers within ctx. An error, or a verdict that is none, means what
	// DedupConfig.Fallback says.
	Judge(ctx context.Context, q DedupQuestion) (events.Verdict, error)
}

// DedupQuestion is a submission, and what it may be the same as: first the
// submissions that arrived before it and are not decided yet, in state created,
// the last to arrive first; then the live items, the last touched first. A verdict
// may name any of them. The items show all that was durable when the question was
// asked.
type DedupQuestion struct {
	Submission core.Submit
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

	// maxUndecidedWait is how long a submission waits for the decision of another
	// that its verdict names, before the fallback decides.
	maxUndecidedWait = time.Minute
)

// DedupConfig says when a host's dedup hook is asked.
type DedupConfig struct {
	Hook  DedupHook // nil: none
	Types []events.Type
	// Candidates is the most live items that a question has, and the most
	// submissions that are not decided yet. 0: DefaultDedupCandidates.
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
	cfg       *Config
	slots     *semaphore.Weighted // maxJudged
	position  func() events.Seq   // of the last durable event
	undecided undecided
	spawned   judgedSpawns
}

func newJudge(cfg *Config, position func() events.Seq) *judge {
	return &judge{cfg: cfg, slots: semaphore.NewWeighted(maxJudged), position: position}
}

// asks reports whether the hook is asked about submissions of a type.
func (j *judge) asks(t events.Type) bool {
	d := &j.cfg.Dedup
	return d.Hook != nil && (len(d.Types) == 0 || slices.Contains(d.Types, t))
}

// score fills in the host's score.
func (j *judge) score(c *core.Submit) {
	if j.cfg.scores(c.Type) && c.Score == nil {
		s := j.cfg.Score(*c)
		c.Score = &s
	}
}

// all has submissions judged, as many at once as there is room for, and returns
// when they may be decided. ctx ends it early, by the fallback.
func (j *judge) all(ctx context.Context, g *askedGroup) {
	var wg sync.WaitGroup
	for _, a := range g.all {
		if j.slots.Acquire(ctx, 1) != nil {
			a.submit.Verdict = j.fallback("there was no time to ask")
			continue
		}
		wg.Go(func() {
			defer j.slots.Release(1)
			j.one(ctx, a)
		})
	}
	wg.Wait()
	j.settle(ctx, g)
}

// one asks about one submission.
func (j *judge) one(ctx context.Context, a *asked) {
	d := &j.cfg.Dedup
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	before, candidates, err := j.candidates(ctx, a)
	if err == nil {
		var v events.Verdict
		if v, err = d.Hook.Judge(ctx, DedupQuestion{Submission: *a.submit, Candidates: candidates}); err == nil {
			switch v.Policy {
			case events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer:
				v.Source = "hook"
				a.submit.Verdict = &v
				a.names = named(before, &v)
				return
			}
			err = fmt.Errorf("%q is no verdict: use merge, distinct, supersede or defer", v.Policy)
		}
	}
	j.fallBack(a, err)
}

// named is the undecided submission that a verdict names, nil for none.
func named(before []*asked, v *events.Verdict) *asked {
	if v.Policy == events.DedupDistinct {
		return nil
	}
	id := v.Canonical.String()
	for _, b := range before {
		if b.item.ID == id {
			return b
		}
	}
	return nil
}

// settle waits until the undecided submissions of other groups that the verdicts
// of a group name are decided, for at most maxUndecidedWait. They have all arrived
// before the group, so groups never wait for each other in a ring.
func (j *judge) settle(ctx context.Context, g *askedGroup) {
	ctx, cancel := context.WithTimeout(ctx, maxUndecidedWait)
	defer cancel()
	for _, a := range g.all {
		if a.names == nil || a.names.group == g {
			continue
		}
		select {
		case <-a.names.group.ended:
		case <-ctx.Done():
			j.fallBack(a, fmt.Errorf("%s, which the verdict names, is not decided yet: %w", a.names.item.ID, ctx.Err()))
			continue
		}
		if of := a.names.became; !of.IsZero() {
			a.submit.Verdict.Canonical = of
		}
	}
}

// fallBack gives a submission the verdict in place of one that was not given.
func (j *judge) fallBack(a *asked, why error) {
	j.cfg.Logger.Warn("the dedup hook gave no verdict", "type", a.submit.Type, "error", why, "fallback", j.cfg.Dedup.Fallback)
	a.submit.Verdict = j.fallback(why.Error())
}

// fallback is the verdict in place of one that was not given.
func (j *judge) fallback(why string) *events.Verdict {
	if j.cfg.Dedup.Fallback == DedupFallbackDistinct {
		return &events.Verdict{Policy: events.DedupDistinct, Source: "fallback", Reason: why}
	}
	return nil
}

// candidates are what a submission may be the same as: those that are undecided,
// and behind them the live items. The order in which the two are read leaves no
// gap: what is no longer undecided is durable, and the projection is waited for
// until it shows that.
func (j *judge) candidates(ctx context.Context, a *asked) (before []*asked, items []wire.Item, err error) {
	d, room := &j.cfg.Dedup, maxQuestionBytes
	prefix := j.keyPrefix(a.submit)
	before = j.undecided.before(a, prefix, d.Candidates)
	if err := j.cfg.Store.Await(ctx, j.position()); err != nil {
		return nil, nil, fmt.Errorf("wait for the projection: %w", err)
	}
	items = make([]wire.Item, 0, len(before)+d.Candidates)
	except := map[string]bool{a.item.ID: true, a.parent: true}
	add := func(it wire.Item) {
		if room -= len(it.Params); room < 0 {
			it.Params = nil
		}
		items = append(items, it)
	}
	for _, b := range before {
		except[b.item.ID] = true
		add(b.item)
	}
	live := 0
	err = query.Of(j.cfg.Store).EachLive(a.submit.Type, prefix, func(it wire.Item) bool {
		if !except[it.ID] {
			add(it)
			live++
		}
		return live < d.Candidates
	})
	return before, items, err
}

// keyPrefix is what the dedup keys of a submission's candidates begin with, empty
// for any.
func (j *judge) keyPrefix(c *core.Submit) string {
	sep := j.cfg.Dedup.KeySeparator
	if i := strings.LastIndex(c.DedupKey, sep); sep != "" && i >= 0 {
		return c.DedupKey[:i+len(sep)]
	}
	return ""
}
