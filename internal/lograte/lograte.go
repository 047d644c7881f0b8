// Package lograte bounds how many lines of one kind a second a program writes to
// its log, and has the number of those left out written too.
package lograte

import (
	"sync"
	"time"
)

// Limiter lets so many lines through in a second. It is safe for concurrent use.
type Limiter struct {
	most int
	tell func(left int)

	mu    sync.Mutex  // guards what follows
	began time.Time   // of the second that said counts
	said  int         // lines let through in it
	left  int         // lines left out and not told yet
	timer *time.Timer // tells them; nil: there are none
}

// New makes a Limiter. It calls tell, in a goroutine of its own, a second after
// the first line that it has left out, with how many there are by then.
func New(most int, tell func(left int)) *Limiter { return &Limiter{most: most, tell: tell} }

// Allow reports whether one more line may be written.
func (l *Limiter) Allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= time.Second {
		l.began, l.said = now, 0
	}
	if l.said < l.most {
		l.said++
		return true
	}
	if l.left++; l.timer == nil {
		l.timer = time.AfterFunc(time.Second, l.Flush)
	}
	return false
}

// Flush tells now what has been left out, if anything has.
func (l *Limiter) Flush() {
	l.mu.Lock()
	left := l.left
	l.left = 0
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	if left > 0 {
		l.tell(left)
	}
}
