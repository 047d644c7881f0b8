package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Defaults and bounds of a relay.
const (
	DefaultBatch    = 500
	MaxBatch        = 5000
	DefaultPoll     = 30 * time.Second // while LISTEN works
	DefaultDegraded = time.Second      // between two looks while it does not

	batchBytes  = 16 << 20 // of params and options in memory
	ackTimeout  = 10 * time.Second
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 5 * time.Second
	maxErrorLen = 2000
)

// Config configures a Relay. DB and NATS must be set.
type Config struct {
	Outbox Outbox
	DB     *pgxpool.Pool // the relay takes one connection of it, and opens another to LISTEN
	NATS   *nats.Conn    // whose user may publish to work.submit.>
	Prefix string        // of the engine's subjects; empty: work
	// Namespace is the engine's namespace that gets the items; empty: the default one, or
	// that of Prefix.
	Namespace events.Namespace
	Domain    string // the JetStream domain that has the engine's streams; empty: the server's
	// Batch is the number of items published in one transaction, 1 to MaxBatch;
	// 0: DefaultBatch.
	Batch int
	// Poll is the interval at which the table is looked at without having been woken;
	// 0: DefaultPoll. While LISTEN does not work it is Degraded; 0:
	// DefaultDegraded.
	Poll, Degraded time.Duration
	// Published, if set, is called for each batch that has left the outbox. It must
	// not block.
	Published func(items int)
	Logger    *slog.Logger // nil: none
}

// Relay publishes the items of an outbox. Make one with NewRelay and Run it.
type Relay struct {
	cfg   Config
	table string
	js    jetstream.JetStream
	names wire.Names
	wake  chan struct{} // holds one
	heard chan bool     // whether LISTEN works; holds one, the newest
}

// NewRelay checks the configuration.
func NewRelay(cfg Config) (*Relay, error) {
	table, err := cfg.Outbox.table()
	if err != nil {
		return nil, err
	}
	if cfg.DB == nil || cfg.NATS == nil {
		return nil, errors.New("make outbox relay: DB and NATS must be set")
	}
	cfg.Batch = cmp.Or(cfg.Batch, DefaultBatch)
	if cfg.Batch < 1 || cfg.Batch > MaxBatch {
		return nil, fmt.Errorf("make outbox relay: the batch is %d: it must be 1 to %d", cfg.Batch, MaxBatch)
	}
	if cfg.Poll <= 0 {
		cfg.Poll = DefaultPoll
	}
	if cfg.Degraded <= 0 {
		cfg.Degraded = DefaultDegraded
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	names := wire.WithPrefix(cfg.Prefix).In(cfg.Domain)
	if cfg.Namespace != "" {
		ns, err := events.ParseNamespace(string(cfg.Namespace))
		if err != nil {
			return nil, fmt.Errorf("make outbox relay: %w", err)
		}
		names = names.Namespace(ns)
	}
	js, err := connect.JetStream(cfg.NATS, names, jetstream.WithPublishAsyncMaxPending(cfg.Batch), jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		return nil, fmt.Errorf("make outbox relay: %w", err)
	}
	return &Relay{cfg: cfg, table: table, js: js, names: names, wake: make(chan struct{}, 1), heard: make(chan bool, 1)}, nil
}

// Run publishes until ctx ends, and returns nil then. It lives through losses of
// the database, of NATS and of the engine, and returns an error only if the
// table is not there.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var listening sync.WaitGroup
	listening.Go(func() { r.listen(ctx) })
	defer listening.Wait()
	defer cancel()
	poll, backoff := r.cfg.Degraded, time.Duration(0)
	for {
		n, err := r.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case isMissing(err):
			return err
		case err != nil:
			backoff = min(max(2*backoff, minBackoff), maxBackoff)
			r.cfg.Logger.Warn("the outbox could not be published: trying again", "in", backoff, "error", err)
			if sleep.For(ctx, backoff/2+rand.N(backoff/2+1)) != nil {
				return nil
			}
			continue
		}
		backoff = 0
		if n > 0 {
			continue // there may be more
		}
		t := time.NewTimer(poll)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case ok := <-r.heard:
			if poll = r.cfg.Degraded; ok {
				poll = r.cfg.Poll
			}
		case <-t.C:
		}
		t.Stop()
	}
}

// listen wakes the relay when something has been inserted, until ctx ends.
func (r *Relay) listen(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		err := r.listenOnce(ctx, func() { backoff = minBackoff })
		if ctx.Err() != nil {
			return
		}
		r.tell(false)
		r.cfg.Logger.Warn("LISTEN has ended: polling until it works again", "error", err)
		if sleep.For(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (r *Relay) listenOnce(ctx context.Context, works func()) error {
	conn, err := pgx.ConnectConfig(ctx, r.cfg.DB.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(c)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+r.table); err != nil {
		return err
	}
	works()
	r.tell(true)
	for {
		r.wakeUp() // first for what was inserted before
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

func (r *Relay) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tell notes whether LISTEN works. Only listen calls it.
func (r *Relay) tell(ok bool) {
	select {
	case <-r.heard:
	default:
	}
	r.heard <- ok
}
