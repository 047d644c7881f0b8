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
	// proofEvery is the time between two reports of progress, and proofAlive the time
	// between repeats while there is none, to show the caller that the engine lives.
	proofEvery = 100 * time.Millisecond
	proofAlive = 5 * time.Second
)

// errProving refuses a proof while one is under way.
var errProving = &events.Error{Code: events.CodeUnavailable, Message: "a verify or rebuild is under way already: ask again when it is done", RetryAfter: 5 * time.Second}

// proofAPI replays the log.
type proofAPI struct {
	*engine
	proving chan struct{} // a token for the one replay that is under way
}

func (a *proofAPI) handle(h *handlers) {
	at(h, wire.APIVerify, a.verify)
	at(h, wire.APIRebuild, a.rebuild)
	at(h, wire.APIState, a.stateAt)
}

func (a *proofAPI) verify(c *call, req wire.Verify) {
	if req.Node != "" && req.Node != a.Info.Node {
		go c.s.passTo(c, req.Node)
		return
	}
	var v projector.Verified
	a.replay(c, func(ctx context.Context, told projector.Progress) (err error) {
		v, err = a.Prover.Verify(ctx, told)
		return err
	}, func(now wire.VerifyReply) any {
		if now.Done {
			now.Node = a.Info.Node
			now.Equal, now.Digest, now.Live, now.Diff, now.Position = v.Equal, v.Digest, v.Live, v.Diff, wire.PositionOf(v.Position)
		}
		return now
	})
}

func (a *proofAPI) rebuild(c *call, _ wire.StatsRequest) {
	a.replay(c, func(ctx context.Context, told projector.Progress) error {
		err := a.Prover.Rebuild(ctx, told)
		a.Metrics.recount()
		return err
	}, func(now wire.VerifyReply) any {
		if now.Done { // without an error, or nobody sees it
			now.Equal, now.Position = true, wire.PositionOf(a.Queries.Applied())
		}
		return now
	})
}

// replay runs fn on a goroutine of its own, one at a time, and tells its progress
// and outcome, as reply writes them. While fn runs, reply must not read what fn
// writes.
func (a *proofAPI) replay(c *call, fn func(context.Context, projector.Progress) error, reply func(now wire.VerifyReply) any) {
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
		p := &proof{c: c, write: reply, sent: time.Now()}
		stop := p.stayAlive()
		err := fn(a.ctx, p.told)
		stop()
		if errors.Is(err, projector.ErrProving) {
			err = errProving
		}
		err = unreachable(err)
		<-a.proving // before the reply, so that the caller can ask for the next
		p.now.Done, p.now.Elapsed = true, events.DurationOf(time.Since(c.start).Truncate(time.Millisecond))
		c.reply(reply(p.now), err)
	}()
}

// proof is a replay under way.
type proof struct {
	c     *call
	write func(wire.VerifyReply) any
	mu    sync.Mutex
	now   wire.VerifyReply // guarded by mu
	sent  time.Time        // guarded by mu
}

// told passes progress on, now and then.
func (p *proof) told(done, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Events, p.now.Total = done, total
	p.tell(proofEvery)
}

// tell sends the progress if it was last sent so long ago. REQUIRES: mu is held.
func (p *proof) tell(ago time.Duration) {
	if time.Since(p.sent) < ago {
		return
	}
	p.sent = time.Now()
	p.now.Elapsed = events.DurationOf(time.Since(p.c.start).Truncate(time.Millisecond))
	p.c.progress(p.write(p.now))
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
