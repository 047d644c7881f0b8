package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// MaxClients bounds the feeds open at once.
const MaxClients = 256

// pace sets how often things are done; tests are quicker.
type pace struct {
	stats     time.Duration // between two looks at the figures, at least
	refresh   time.Duration // and at most: ages grow though nothing happens
	events    time.Duration // between two frames of events, at least
	sample    time.Duration // between two samples of the trends
	heartbeat time.Duration // of an idle feed
	write     time.Duration // that a client may take for a frame
	call      time.Duration // that the engine may take for its figures
}

var usualPace = pace{
	stats: time.Second, refresh: 10 * time.Second, events: 250 * time.Millisecond, sample: SampleEvery,
	heartbeat: 15 * time.Second, write: 10 * time.Second, call: 5 * time.Second,
}

// Config holds what a Hub is made of. Engine and Totals must be set.
type Config struct {
	Engine rest.Caller
	Totals func() (map[events.Type]figures.Total, error) // of each type, now
	Logger *slog.Logger                                  // nil: none

	pace pace // zero: usualPace
}

// Hub serves the live feed and the trends. Start and Stop are called once each; all
// else may be used by any goroutine, before, between and after them.
type Hub struct {
	cfg      Config
	ring     ring
	clients  atomic.Int32 // feeds under way
	reads    atomic.Int32 // replies with trends under way
	join     chan *client
	leave    chan *client
	changed  chan struct{} // told has become true
	quit     chan struct{}
	stopping sync.Once
	loop     sync.WaitGroup

	mu     sync.Mutex // held only to count a commit, or to take what was counted
	window window
	told   bool // something has changed since the window was last taken

	feeds  sync.WaitGroup
	feedMu sync.Mutex // orders feeds.Add before the Wait
	ended  bool
}

// New makes a Hub.
func New(cfg Config) (*Hub, error) {
	if cfg.Engine == nil || cfg.Totals == nil {
		return nil, errors.New("make live feed: Engine and Totals must be set")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.pace == (pace{}) {
		cfg.pace = usualPace
	}
	return &Hub{cfg: cfg, join: make(chan *client), leave: make(chan *client), changed: make(chan struct{}, 1), quit: make(chan struct{})}, nil
}

// Start begins to sample and to serve. What was projected before counts for
// nothing in the trends: at a start that is the past.
func (h *Hub) Start() {
	h.ring.begin(h.totals())
	h.loop.Go(h.run)
}

// Stop ends all feeds and the sampling, and returns when they have ended. New
// feeds are refused from then on. It is idempotent.
func (h *Hub) Stop() {
	h.stopping.Do(func() {
		h.feedMu.Lock()
		h.ended = true
		h.feedMu.Unlock()
		close(h.quit)
	})
	h.loop.Wait()
	h.feeds.Wait()
}

// Projected takes in a commit of the projector. It never waits.
func (h *Hub) Projected(c *core.Changes) {
	if h.clients.Load() == 0 {
		return
	}
	h.mu.Lock()
	h.window.add(c)
	h.tell()
	h.mu.Unlock()
}

// Touch says that something has changed that is no event, such as the workers.
// It never waits.
func (h *Hub) Touch() {
	if h.clients.Load() == 0 {
		return
	}
	h.mu.Lock()
	h.tell()
	h.mu.Unlock()
}

// tell wakes the loop, once between two looks of it. REQUIRES: mu is held.
func (h *Hub) tell() {
	if !h.told {
		h.told = true
		nudge.Send(h.changed)
	}
}

func (h *Hub) take() window {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.window
	h.window, h.told = window{}, false
	return w
}

// totals returns what there is now, nil if that can't be read.
func (h *Hub) totals() map[events.Type]figures.Total {
	now, err := h.cfg.Totals()
	if err != nil {
		h.cfg.Logger.Warn("the trends lack the types", "error", err)
		return nil
	}
	return now
}

// answer holds the engine's figures as it gave them when it was asked.
type answer struct {
	frame []byte // nil: it was not asked for the workers
	stats wire.StatsReply
	err   error
}

// runner is the loop of a Hub. All fields are owned by run.
type runner struct {
	*Hub
	watching map[*client]bool // and whether it is to see the next frame of events

	fetched  chan answer
	fetching bool
	asked    time.Time // when the engine was last asked
	frame    []byte    // the figures of then
	dirty    bool      // something has changed since
	failing  bool      // the engine did not answer the last time

	told     bool      // the window has something
	shown    time.Time // when it was last taken
	sampleAt time.Time
	sampling bool // waits for figures
}

func (h *Hub) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &runner{Hub: h, watching: map[*client]bool{}, fetched: make(chan answer, 1), sampleAt: time.Now().Add(h.cfg.pace.sample)}
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-h.quit:
			for c := range r.watching {
				c.end()
			}
			return
		case c := <-h.join:
			r.admit(c)
		case c := <-h.leave:
			delete(r.watching, c)
		case <-h.changed:
			r.told = true
		case f := <-r.fetched:
			r.took(f)
		case <-timer.C:
		}
		now := time.Now()
		r.show(now)
		r.sample(now)
		if r.due(now) {
			r.fetching, r.dirty, r.asked = true, false, now
			workers := len(r.watching) > 0
			asking.Go(func() { r.fetched <- h.ask(ctx, workers) })
		}
		timer.Reset(max(r.next().Sub(now), time.Millisecond))
	}
}

// admit takes in a client, and sends it the figures if they are still current.
func (r *runner) admit(c *client) {
	r.mu.Lock()
	r.watching[c] = len(r.window.types) == 0 // else the next frame has what was before it came
	r.mu.Unlock()
	if r.frame != nil && time.Since(r.asked) < r.cfg.pace.stats {
		c.putStats(r.frame)
		return
	}
	r.frame = nil // none of the last second: ask at once
}

// show hands out what the window has, unless that was done a moment ago.
func (r *runner) show(now time.Time) {
	if !r.told || now.Sub(r.shown) < r.cfg.pace.events {
		return
	}
	w := r.take()
	r.told, r.shown, r.dirty = false, now, true
	frames := map[string]frame{} // by filter
	for c, ready := range r.watching {
		if r.watching[c] = true; !ready {
			continue
		}
		f, ok := frames[c.key]
		if !ok {
			f = newFrame(w.pick(c.types))
			frames[c.key] = f
		}
		if f.count() > 0 {
			c.putEvents(f)
		}
	}
}

// sample adds to the trends when it is time, with the oldest items' ages if
// there are any.
func (r *runner) sample(now time.Time) {
	if r.sampling || now.Before(r.sampleAt) {
		return
	}
	for r.sampleAt = r.sampleAt.Add(r.cfg.pace.sample); r.sampleAt.Before(now); {
		r.sampleAt = r.sampleAt.Add(r.cfg.pace.sample) // the machine slept
	}
	totals := r.totals()
	for _, n := range totals {
		if n.Queued > 0 {
			r.sampling = true // with the next figures
			return
		}
	}
	r.add(now, totals, map[events.Type]int64{})
}

func (r *runner) add(now time.Time, totals map[events.Type]figures.Total, oldest map[events.Type]int64) {
	if totals != nil {
		r.ring.sample(now, totals, oldest)
	}
}

// due reports whether to ask the engine for its figures now.
func (r *runner) due(now time.Time) bool {
	at, ok := r.dueAt()
	return ok && !now.Before(at)
}

// dueAt returns when to ask the engine next, if at all.
func (r *runner) dueAt() (at time.Time, ok bool) {
	soon := r.asked.Add(r.cfg.pace.stats)
	switch {
	case r.fetching:
		return at, false
	case !r.failing && (r.sampling || len(r.watching) > 0 && r.frame == nil):
		return r.asked, true
	case r.sampling || len(r.watching) > 0 && (r.dirty || r.failing || r.frame == nil):
		return soon, true
	case len(r.watching) > 0:
		return r.asked.Add(r.cfg.pace.refresh), true
	}
	return at, false
}

// next returns when something is due.
func (r *runner) next() time.Time {
	at := r.sampleAt
	if r.told {
		if show := r.shown.Add(r.cfg.pace.events); show.Before(at) {
			at = show
		}
	}
	if ask, ok := r.dueAt(); ok && ask.Before(at) {
		at = ask
	}
	return at
}

// took takes in the engine's figures, or that there are none.
func (r *runner) took(f answer) {
	r.fetching = false
	if f.err != nil && !r.failing {
		r.cfg.Logger.Warn("the live feed lacks the engine's figures: trying again", "error", f.err)
	}
	r.failing = f.err != nil
	if r.sampling {
		r.sampling = false
		r.add(time.Now(), r.totals(), f.oldest())
	}
	if f.frame == nil {
		return
	}
	r.frame = f.frame
	for c := range r.watching {
		c.putStats(f.frame)
	}
}

// oldest returns the ages of the types' oldest queued items in ms; nil if the
// engine did not say.
func (f *answer) oldest() map[events.Type]int64 {
	if f.err != nil {
		return nil
	}
	ages := make(map[events.Type]int64, len(f.stats.Types))
	for _, t := range f.stats.Types {
		ages[events.Type(t.Type)] = t.Oldest.Milliseconds()
	}
	return ages
}

// sortedTypes returns the types of a map that a filter wants, in order.
func sortedTypes[V any](m map[events.Type]V, filter map[events.Type]bool) []events.Type {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(t events.Type) bool { return !wanted(filter, t) })
}
