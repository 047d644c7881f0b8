package dedup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// Hook judges, for a host, which submissions are the same work. It is called concurrently.
type Hook interface {
	// Judge answers within ctx. If it returns an error, or an invalid verdict,
	// Config.Fallback decides.
	Judge(ctx context.Context, q Question) (events.Verdict, error)
}

// Question is a submission, and the candidates that it may be the same as: first the
// undecided submissions that arrived before it, in state created, the last to arrive first;
// then the live items, the last touched first. A verdict may name any of them. The items
// show all that was durable when the question was asked.
type Question struct {
	Submission core.Submit
	Candidates []wire.Item
}

// The fallbacks when the hook gives no verdict.
const (
	FallbackKey      = "key"      // decide by the dedup key, as if there were no hook
	FallbackDistinct = "distinct" // run the submission, whatever else runs
)

// Bounds and defaults.
const (
	DefaultTimeout    = 2 * time.Second
	MaxTimeout        = time.Minute
	DefaultCandidates = 20
	MaxCandidates     = 200

	maxQuestionBytes = 1 << 20 // of the candidates' params; beyond it, params are left out
	maxQuestions     = 16      // questions asked at once
	maxRequests      = 64      // requests with submissions being asked about

	// maxUndecidedWait is the longest that a submission waits for the decision of another
	// that its verdict names; after it, the fallback decides.
	maxUndecidedWait = time.Minute
)

// Config says when the host's dedup hook is asked.
type Config struct {
	Hook  Hook          // nil: none
	Types []events.Type // none: all
	// Candidates is the most live items, and the most undecided submissions, in a question.
	// 0: DefaultCandidates.
	Candidates int
	// KeySeparator, if set, limits the candidates of a submission whose dedup key contains
	// it to the items whose key begins with the same text, up to the last separator. All
	// other submissions are compared with all live items of the type.
	KeySeparator string
	Timeout      time.Duration // 0: DefaultTimeout
	Fallback     string        // empty: FallbackKey
}

// WithDefaults returns c with defaults for the fields that are not set.
func (c Config) WithDefaults() Config {
	if c.Candidates == 0 {
		c.Candidates = DefaultCandidates
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Fallback == "" {
		c.Fallback = FallbackKey
	}
	return c
}

// Validate returns everything that is wrong, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Candidates < 1 || c.Candidates > MaxCandidates {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's candidates are %d: 1 to %d", c.Candidates, MaxCandidates))
	}
	if c.Timeout < time.Millisecond || c.Timeout > MaxTimeout {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's timeout is %s: 1ms to %s", c.Timeout, MaxTimeout))
	}
	if c.Fallback != FallbackKey && c.Fallback != FallbackDistinct {
		errs = append(errs, fmt.Errorf("dispatcher: the dedup hook's fallback is %q: %s or %s", c.Fallback, FallbackKey, FallbackDistinct))
	}
	return errors.Join(errs...)
}

// Asker asks the hook about submissions. Its methods may be called by any
// goroutine.
type Asker struct {
	cfg       Config
	store     *projector.Store
	log       *slog.Logger
	position  func() events.Seq
	stopping  context.Context     // when it ends, the fallback answers open questions
	questions *semaphore.Weighted // maxQuestions
	undecided undecided
	spawned   spawns

	room   *semaphore.Weighted // maxRequests
	mu     sync.Mutex          // guards closed
	closed bool
	wg     sync.WaitGroup // requests, and spawns being asked about
}

// New makes an Asker. position returns the last durable event; once stopping ends, the
// fallback answers open questions.
func New(stopping context.Context, cfg Config, store *projector.Store, log *slog.Logger, position func() events.Seq) *Asker {
	return &Asker{
		cfg: cfg, store: store, log: log, position: position, stopping: stopping,
		questions: semaphore.NewWeighted(maxQuestions), room: semaphore.NewWeighted(maxRequests),
	}
}

// Asks reports whether the hook is asked about submissions of a type.
func (a *Asker) Asks(t events.Type) bool {
	return a.cfg.Hook != nil && (len(a.cfg.Types) == 0 || slices.Contains(a.cfg.Types, t))
}

// Begin begins a request, which [Asker.Done] ends. It returns false if the engine is
// stopping, or if it has too many requests until ctx ends.
func (a *Asker) Begin(ctx context.Context) bool {
	if a.room.Acquire(ctx, 1) != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.room.Release(1)
		return false
	}
	a.wg.Add(1)
	return true
}

// Done ends a request.
func (a *Asker) Done() {
	a.room.Release(1)
	a.wg.Done()
}

// Stop lets no more requests begin, and waits for those that have begun.
func (a *Asker) Stop() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wg.Wait()
}

// Ask asks about a group, as many submissions at once as there is room for, and returns
// when they may be decided. Each has its verdict then. If ctx ends first, the fallback
// decides.
func (g *Group) Ask(ctx context.Context) {
	if g == nil {
		return
	}
	a := g.asker
	var wg sync.WaitGroup
	for _, s := range g.all {
		if a.questions.Acquire(ctx, 1) != nil {
			s.submit.Verdict = a.fallback("there was no time to ask")
			continue
		}
		wg.Go(func() {
			defer a.questions.Release(1)
			a.one(ctx, s)
		})
	}
	wg.Wait()
	a.settle(ctx, g)
}

// one asks about one submission.
func (a *Asker) one(ctx context.Context, s *asked) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	before, candidates, err := a.candidates(ctx, s)
	if err == nil {
		var v events.Verdict
		if v, err = a.cfg.Hook.Judge(ctx, Question{Submission: *s.submit, Candidates: candidates}); err == nil {
			switch v.Policy {
			case events.DedupMerge, events.DedupDistinct, events.DedupSupersede, events.DedupDefer:
				v.Source = "hook"
				s.submit.Verdict = &v
				s.names = named(before, &v)
				return
			}
			err = fmt.Errorf("%q is no verdict: use merge, distinct, supersede or defer", v.Policy)
		}
	}
	a.fallBack(s, err)
}

// named returns the undecided submission that a verdict names, nil for none.
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

// settle waits until the undecided submissions that a group's verdicts name, if they belong
// to other groups, are decided, for at most maxUndecidedWait. They have all arrived before
// the group, so groups never wait for each other in a circle.
func (a *Asker) settle(ctx context.Context, g *Group) {
	ctx, cancel := context.WithTimeout(ctx, maxUndecidedWait)
	defer cancel()
	for _, s := range g.all {
		if s.names == nil || s.names.group == g {
			continue
		}
		select {
		case <-s.names.group.ended:
		case <-ctx.Done():
			a.fallBack(s, fmt.Errorf("%s, which the verdict names, is not decided yet: %w", s.names.item.ID, ctx.Err()))
			continue
		}
		if of := s.names.became; !of.IsZero() {
			s.submit.Verdict.Canonical = of
		}
	}
}

// fallBack gives a submission the fallback's verdict.
func (a *Asker) fallBack(s *asked, why error) {
	a.log.Warn("the dedup hook gave no verdict", "type", s.submit.Type, "error", why, "fallback", a.cfg.Fallback)
	s.submit.Verdict = a.fallback(why.Error())
}

// fallback returns the verdict to use when the hook gave none.
func (a *Asker) fallback(why string) *events.Verdict {
	if a.cfg.Fallback == FallbackDistinct {
		return &events.Verdict{Policy: events.DedupDistinct, Source: "fallback", Reason: why}
	}
	return nil
}

// candidates returns the submissions and items that a submission may be the same as: the
// undecided ones, then the live items. Reading in this order leaves no gap: what is no
// longer undecided is durable, and candidates waits until the projection shows it.
func (a *Asker) candidates(ctx context.Context, s *asked) (before []*asked, items []wire.Item, err error) {
	room := maxQuestionBytes
	prefix := a.keyPrefix(s.submit)
	before = a.undecided.before(s, prefix, a.cfg.Candidates)
	if err := a.store.Await(ctx, a.position()); err != nil {
		return nil, nil, fmt.Errorf("wait for the projection: %w", err)
	}
	items = make([]wire.Item, 0, len(before)+a.cfg.Candidates)
	except := map[string]bool{s.item.ID: true, s.parent: true}
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
	err = query.Of(a.store).EachLive(s.submit.Type, prefix, func(it wire.Item) bool {
		if !except[it.ID] {
			add(it)
			live++
		}
		return live < a.cfg.Candidates
	})
	return before, items, err
}

// keyPrefix returns the prefix of the dedup keys of a submission's candidates, empty for
// any.
func (a *Asker) keyPrefix(c *core.Submit) string {
	sep := a.cfg.KeySeparator
	if i := strings.LastIndex(c.DedupKey, sep); sep != "" && i >= 0 {
		return c.DedupKey[:i+len(sep)]
	}
	return ""
}
