package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

const (
	// proofEvery is how often progress is told while there is some, and
	// proofAlive while there is none, so that the caller knows that we live.
	proofEvery = 100 * time.Millisecond
	proofAlive = 5 * time.Second
)

// errProving refuses a proof while one is under way.
var errProving = &events.Error{Code: events.CodeUnavailable, Message: "a verify or rebuild is under way already: ask again when it is done", RetryAfter: 5 * time.Second}

// proofAPI replays the log.
type proofAPI struct {
	*engine
	Prover  Prover
	Metrics *Metrics
	ctx     context.Context // the service's
	proving chan struct{}   // a token for the one replay that is under way
}

func (a *proofAPI) handle(h *handlers) {
	raw[wire.StatsRequest](h, wire.APIVerify, a.verify)
	raw[wire.StatsRequest](h, wire.APIRebuild, a.rebuild)
	at(h, wire.APIState, a.stateAt)
}

func (a *proofAPI) verify(c *call) {
	a.prove(c, func(ctx context.Context, p *proof) error {
		v, err := a.Prover.Verify(ctx, p.told)
		p.set(func(r *wire.VerifyReply) {
			r.Equal, r.Digest, r.Live, r.Diff, r.Position = v.Equal, v.Digest, v.Live, v.Diff, wire.PositionOf(v.Position)
		})
		return err
	})
}

func (a *proofAPI) rebuild(c *call) {
	a.prove(c, func(ctx context.Context, p *proof) error {
		err := a.Prover.Rebuild(ctx, p.told)
		a.Metrics.recount()
		p.set(func(r *wire.VerifyReply) { r.Equal, r.Position = err == nil, wire.PositionOf(a.Queries.Applied()) })
		return err
	})
}

// proof is a replay under way, as told to the caller.
type proof struct {
	c     *call
	mu    sync.Mutex
	reply wire.VerifyReply // guarded by mu
	sent  time.Time        // guarded by mu
}

func (p *proof) set(fn func(*wire.VerifyReply)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(&p.reply)
}

// told passes progress on, now and then.
func (p *proof) told(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply.Events, p.reply.Total = done, total
	p.tell(proofEvery)
}

// tell sends the progress if it was last sent so long ago. Callers hold mu.
func (p *proof) tell(ago time.Duration) {
	if time.Since(p.sent) < ago {
		return
	}
	p.sent = time.Now()
	p.reply.ElapsedMS = time.Since(p.c.start).Milliseconds()
	p.c.progress(p.reply)
}

// prove runs fn on a goroutine of its own, one at a time, and tells its
// progress and outcome.
func (a *proofAPI) prove(c *call, fn func(context.Context, *proof) error) {
	if _, err := decode[wire.StatsRequest](c.data); err != nil {
		c.reply(nil, err)
		return
	}
	if a.Prover == nil {
		c.reply(nil, events.Refuse(events.CodeUnavailable, "this engine can't replay its log"))
		return
	}
	select {
	case a.proving <- struct{}{}:
	default:
		c.reply(nil, errProving)
		return
	}
	go func() {
		p := &proof{c: c, sent: time.Now()}
		stop := p.stayAlive()
		err := fn(a.ctx, p)
		stop()
		switch {
		case errors.Is(err, projector.ErrProving):
			err = errProving
		case err != nil && a.ctx.Err() != nil:
			err = errClosing
		}
		<-a.proving // before the reply, so that the caller can ask for the next
		p.reply.Done, p.reply.ElapsedMS = true, time.Since(c.start).Milliseconds()
		c.reply(p.reply, err)
	}()
}

// stayAlive repeats the progress while there is none, until the returned
// function is called.
func (p *proof) stayAlive() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(proofAlive)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				p.mu.Lock()
				p.tell(proofAlive)
				p.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}
