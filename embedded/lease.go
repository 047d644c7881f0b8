package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/api/rest"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/kvstate"
)

// Where several engines can reach one log (on an existing NATS), the lease in
// the bucket work_partitions says which of them tries to own it. It only makes
// the others stand by: the log alone decides who may append, and fences
// latecomers. So a lease that can't be asked for stops no engine. Only the
// server's clock ends a lease, and no clocks are compared.

// ErrNotOwner is wrapped by the error of an engine that has ended because another
// owns the log. Start it again: it stands by.
var ErrNotOwner = errors.New("another engine owns the log")

const (
	leaseTTL   = kvstate.DefaultPartitionTTL
	leaseRenew = leaseTTL / 3
	// leaseAsk bounds one request for the lease, and leaseTries are made at start
	// before an engine goes on without.
	leaseAsk   = 2 * time.Second
	leaseTries = 3
	// standbyLook is the time after which a standby asks for the lease again, beside whenever the
	// server tells that it has changed.
	standbyLook = time.Second
)

// lease holds this engine's claim to the log.
type lease struct {
	e      *Engine
	owners *kvstate.Partitions
	me     kvstate.Owner

	mu    sync.Mutex // guards what follows; held while the bucket is asked
	rev   uint64     // 0: it is not held
	epoch events.Epoch

	cancel context.CancelFunc
	ended  sync.WaitGroup
	wake   chan struct{}
}

// nodeFile names the data folder, for as long as it is there.
const nodeFile = "NODE"

// node reads the data folder's name, or gives it one. Without a folder it makes one
// up.
func (d *dataDir) node() (string, error) {
	if d == nil {
		return rand.Text(), nil
	}
	path := filepath.Join(d.path, nodeFile)
	b, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(b)); err == nil && name != "" {
		return name, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	name := rand.Text()
	return name, os.WriteFile(path, []byte(name+"\n"), 0o600)
}

// takeLease returns once this engine may try to own the log. Until then it
// stands by: its HTTP says so, and it answers nothing else.
func (e *Engine) takeLease(ctx context.Context) error {
	if e.srv != nil {
		return nil // nobody else has this server's data
	}
	js, err := connect.JetStream(e.nc, e.names())
	if err != nil {
		return fmt.Errorf("take the lease: %w", err)
	}
	node, err := e.dir.node()
	if err != nil {
		return fmt.Errorf("take the lease: name the data folder: %w", err)
	}
	l := &lease{e: e, owners: kvstate.NewPartitions(js, e.names(), leaseTTL).Replicate(e.copies.replicas, e.copies.placement), me: kvstate.Owner{Owner: owner(), Node: node}, wake: make(chan struct{}, 1)}
	by, err := l.first(ctx)
	if err != nil {
		return err
	}
	if by != nil {
		if err := l.standBy(ctx, by); err != nil {
			return err
		}
	}
	run, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.ended.Go(func() { l.renew(run) })
	e.lease = l
	return nil
}

// first asks for the lease, some times if it gets no answer.
func (l *lease) first(ctx context.Context) (held *kvstate.HeldError, err error) {
	for range leaseTries {
		if err = l.ask(ctx); err == nil || errors.As(err, &held) {
			return held, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	l.e.log.Warn("the lease of the log can't be asked for: going on without; if another engine works on this log, the two will take it from each other", "error", err)
	return nil, nil
}

// ask takes or renews the lease. A *kvstate.HeldError says that another has it.
func (l *lease) ask(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaseAsk)
	defer cancel()
	me := l.me
	me.Epoch, me.At = l.epoch, time.Now().UTC()
	rev, err := l.owners.Lease(ctx, 0, me, l.rev)
	if held := (*kvstate.HeldError)(nil); err == nil || errors.As(err, &held) {
		l.rev = rev
	}
	return err
}

// mayOwn is asked before the log is taken over again.
func (l *lease) mayOwn(ctx context.Context) error {
	var held *kvstate.HeldError
	if err := l.ask(ctx); errors.As(err, &held) {
		return fmt.Errorf("%w: %s", ErrNotOwner, held.By.Owner)
	}
	return nil
}

// owned notes the epoch, which the lease shows from then on.
func (l *lease) owned(epoch events.Epoch) {
	l.mu.Lock()
	l.epoch = epoch
	l.mu.Unlock()
	l.poke()
}

func (l *lease) poke() { signal(l.wake) }

// signal fills a channel with room for one, unless it is full.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// renew keeps the lease until ctx ends. When it is another's, the dispatcher ends
// its ownership, finds the same, and ends.
func (l *lease) renew(ctx context.Context) {
	tick := time.NewTicker(leaseRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-tick.C:
		}
		err := l.ask(ctx)
		var held *kvstate.HeldError
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.As(err, &held):
			l.e.log.Warn("the lease of the log has gone to another engine", "owner", held.By.Owner)
			if d := l.e.working.Load(); d != nil {
				d.Reload()
			}
		default:
			l.e.log.Warn("the lease of the log could not be renewed: trying again", "error", err)
		}
	}
}

// stop releases the lease, so that a standby takes over at once.
func (l *lease) stop(ctx context.Context) error {
	l.cancel()
	l.ended.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rev == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseAsk)
	defer cancel()
	if err := l.owners.Release(ctx, 0, l.rev); err != nil {
		l.e.log.Warn("the lease of the log could not be released: it ends by itself", "error", err, "within", leaseTTL)
	}
	return nil
}

// standBy waits until the lease is this engine's.
func (l *lease) standBy(ctx context.Context, held *kvstate.HeldError) error {
	var by atomic.Pointer[string] // the owner, as HTTP tells it
	by.Store(&held.By.Owner)
	if l.e.cfg.Server.HTTP != config.Off {
		secure, err := l.e.openTLS()
		if err != nil {
			return err
		}
		s := rest.NewStandby(rest.StandbyConfig{TLS: secure, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { api.AnswerStandby(w, r, *by.Load()) }), Logger: l.e.log.With("part", "http")})
		if err := s.Listen(l.e.cfg.Server.HTTP); err != nil {
			return err
		}
		defer s.Close()
	}
	sub, err := l.e.nc.Subscribe(l.owners.Subject(0), func(*nats.Msg) { l.poke() })
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
	}
	tick := time.NewTicker(standbyLook)
	defer tick.Stop()
	told := ""
	for {
		if name := held.By.Owner; name != told {
			told = name
			by.Store(&name)
			l.e.log.Info("standing by: another engine owns the log", "owner", name)
			if l.e.o.StandingBy != nil {
				l.e.o.StandingBy(name)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
		case <-tick.C:
		}
		switch err := l.ask(ctx); {
		case err == nil:
			l.e.log.Info("the lease of the log is free: taking over", "of", told)
			return nil
		case !errors.As(err, &held) && ctx.Err() == nil:
			l.e.log.Warn("the lease of the log can't be asked for: standing by", "error", err)
		}
	}
}
