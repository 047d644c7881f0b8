// Package repeat says whether a request to the engine is made again, and when. The owner
// of the log may change, and requests fail while it does: clients and nodes repeat them by
// the rules here, so that they are answered a little later instead.
//
// A refusal says one of two things. That nobody has taken the request: then it may be
// repeated, whatever it asks for. Or that nobody knows what became of it: then it is
// repeated only if asking twice does no more than asking once.
package repeat

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/streamwright/streamwright/events"
)

const (
	// FirstTry is the time for the reply to a request's first try. An engine that dies takes
	// the requests that it has not answered with it; another one answers the next try.
	FirstTry = 2 * time.Second
	// OwnerWait is the longest wait while an engine answers that it is not the owner: the
	// owner answers as soon as there is one.
	OwnerWait = 250 * time.Millisecond
)

// NotNow reports whether a refusal says that no engine can decide now.
func NotNow(c events.Code) bool { return c == events.CodeUnavailable || c == events.CodeNotOwner }

// Passes reports whether a refusal may end by itself: no engine decides now, or none has
// answered.
func Passes(c events.Code) bool { return NotNow(c) || c == events.CodeTimeout }

// untaken is a refusal of a request that has reached nobody.
type untaken struct{ refused *events.Error }

func (u untaken) Error() string { return u.refused.Error() }
func (u untaken) Unwrap() error { return u.refused }

// Untaken marks the refusal of a request that has reached nobody.
func Untaken(err *events.Error) error { return untaken{err} }

// May reports whether a request that has failed with err may be made again. once says that
// asking twice may do more than asking once.
func May(err error, once bool) bool {
	var e *events.Error
	if !errors.As(err, &e) || !Passes(e.Code) {
		return false
	}
	var u untaken
	return !once || e.Code == events.CodeNotOwner || errors.As(err, &u)
}

// Unknown adds to the last error of a request that is not made again that it may have been
// done, if that is so.
func Unknown(err error, once bool) error {
	var e *events.Error
	if !once || May(err, true) || !errors.As(err, &e) || !Passes(e.Code) {
		return err
	}
	told := *e
	told.Message += "; it may have been done: look before you ask again"
	return &told
}

// Timeout returns the time for a try, after tries of them, of at most most: each has more
// than the one before, so that a slow engine is not asked the same again and again.
func Timeout(tries int, most time.Duration) time.Duration {
	return min(FirstTry<<min(tries, 16), most)
}

// Backoff is a wait that doubles with each try, between two bounds.
type Backoff struct{ Min, Max time.Duration }

// Wait returns the wait before the next try, after tries of them: half of it and up to
// half more.
func (b Backoff) Wait(tries int) time.Duration {
	d := min(b.Min<<min(tries, 16), b.Max)
	return d/2 + rand.N(d/2)
}

// After returns the wait before the next try of a request that has failed with err: not
// before the time that the refusal names, except for one that another engine answers.
func (b Backoff) After(err error, tries int) time.Duration {
	wait := b.Wait(tries)
	var e *events.Error
	switch {
	case !errors.As(err, &e):
		return wait
	case e.Code == events.CodeNotOwner:
		return min(wait, OwnerWait)
	}
	return max(wait, min(e.RetryAfter, time.Minute))
}
