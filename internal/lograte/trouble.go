package lograte

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// Again is the time between two lines about a trouble that lasts.
	Again = time.Minute
	// Quiet is the time without a failure after which a trouble is over.
	Quiet = 15 * time.Second
)

// Trouble writes a line when something that is tried again and again begins to fail, one a
// minute while that lasts, and one when it is over. It is safe for concurrent use.
type Trouble struct {
	log  *slog.Logger
	what string

	mu          sync.Mutex // guards what follows
	since, said time.Time  // since: zero while there is none
	last        time.Time  // failure
	quiet       *time.Timer
}

// NewTrouble returns a Trouble whose lines begin with what.
func NewTrouble(log *slog.Logger, what string) *Trouble { return &Trouble{log: log, what: what} }

// Failed notes a failure; args are for the line, if there is one.
func (t *Trouble) Failed(err error, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.last = now
	switch args = append(args, "error", err); {
	case t.since.IsZero():
		t.since, t.said = now, now
		t.quiet = time.AfterFunc(Quiet, t.over)
		t.log.Warn(t.what+": trying again until it works", args...)
		return
	case now.Sub(t.said) >= Again:
		t.said = now
		t.log.Warn(t.what+": it still fails", append(args, "for", now.Sub(t.since).Round(time.Second))...)
	}
	t.quiet.Reset(Quiet)
}

// over says that it fails no longer.
func (t *Trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() || time.Since(t.last) < Quiet {
		return // ended, or failed again meanwhile
	}
	t.log.Info(t.what+": it works again", "after", t.last.Sub(t.since).Round(time.Second))
	t.since = time.Time{}
}

// Stop ends it without a line.
func (t *Trouble) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quiet != nil {
		t.quiet.Stop()
	}
	t.since = time.Time{}
}
