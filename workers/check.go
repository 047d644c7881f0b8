package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// Bounds of a worker's own checks.
const (
	MaxChecks           = wire.MaxFailingChecks
	DefaultCheckTimeout = 2 * time.Second
	// MaxCheckTimeout is such that checks that hang can't keep a worker's
	// heartbeats back until it counts as dead.
	MaxCheckTimeout = 10 * time.Second
)

// Check is one check of the host's health, such as a ping of a database. An
// error says what is wrong; a panic counts as one. It should return when its
// context ends, after Config.CheckTimeout: until it does it counts as failing,
// and it is not called again. It is called by one goroutine at a time, and at
// the same time as the other checks.
type Check func(context.Context) error

func (c Config) validateChecks() (errs []error) {
	if len(c.Checks) > MaxChecks {
		errs = append(errs, fmt.Errorf("worker config: there are %d Checks: at most %d", len(c.Checks), MaxChecks))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Checks)) {
		switch {
		case name == "" || len(name) > wire.MaxCheckName:
			errs = append(errs, fmt.Errorf("worker config: Checks: the name %q has %d bytes: it must have 1 to %d", name, len(name), wire.MaxCheckName))
		case c.Checks[name] == nil:
			errs = append(errs, fmt.Errorf("worker config: Checks: %q is nil", name))
		}
	}
	if c.CheckTimeout < 0 || c.CheckTimeout > MaxCheckTimeout {
		errs = append(errs, fmt.Errorf("worker config: CheckTimeout is %s: it must be up to %s", c.CheckTimeout, MaxCheckTimeout))
	}
	return errs
}

// checker runs a worker's checks. Each runs at most once at a time, however
// many ask for it and however long it hangs.
type checker struct {
	limit  time.Duration
	names  []string
	checks map[string]Check

	mu     sync.Mutex             // guards what follows
	rounds map[string]*checkRound // under way, by check
	closed bool
}

// checkRound is one run of one check.
type checkRound struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newChecker(checks map[string]Check, limit time.Duration) *checker {
	return &checker{limit: limit, names: slices.Sorted(maps.Keys(checks)), checks: checks, rounds: map[string]*checkRound{}}
}

// run runs the checks and returns those that fail, by name, within the limit.
func (c *checker) run(ctx context.Context) (failing []wire.FailingCheck) {
	if len(c.names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	rounds := c.begin(ctx)
	for i, r := range rounds {
		err := fmt.Errorf("no result within %s", c.limit)
		select {
		case <-r.done:
			err = r.err
		case <-ctx.Done():
			select {
			case <-r.done:
				err = r.err
			default:
			}
		}
		if err != nil {
			failing = append(failing, wire.FailingCheck{Check: c.names[i], Error: err.Error()})
		}
	}
	return failing
}

// begin starts the checks that are not under way, and returns a round of each;
// none once the checker is stopped.
func (c *checker) begin(ctx context.Context) (rounds []*checkRound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	for _, name := range c.names {
		r := c.rounds[name]
		if r == nil {
			r = &checkRound{done: make(chan struct{})}
			c.rounds[name] = r
			go c.one(ctx, name, r)
		}
		rounds = append(rounds, r)
	}
	return rounds
}

// one runs one check.
func (c *checker) one(ctx context.Context, name string, r *checkRound) {
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("the check panicked: %v", p)
		}
		c.mu.Lock()
		delete(c.rounds, name)
		c.mu.Unlock()
		close(r.done)
	}()
	r.err = c.checks[name](ctx)
}

// errCheckHangs is returned by Stop.
var errCheckHangs = errors.New("stop worker: a health check does not return although its context has ended")

// stop ends the checking, and waits for the checks under way, whose contexts
// have ended, for as long as they may take.
func (c *checker) stop() error {
	c.mu.Lock()
	c.closed = true
	rounds := slices.Collect(maps.Values(c.rounds))
	c.mu.Unlock()
	limit := time.After(c.limit)
	for _, r := range rounds {
		select {
		case <-r.done:
		case <-limit:
			return errCheckHangs
		}
	}
	return nil
}
