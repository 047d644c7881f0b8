// Package turns has goroutines that compute for long give way to others, so that one flooded
// namespace does not hold up those beside it: a goroutine that has just been woken waits for
// those that run before it, and the runtime lets each of them run for 10 ms.
package turns

import (
	"runtime"
	"time"
)

// Slice is the time for which a goroutine computes before it gives way.
const Slice = 200 * time.Microsecond

// Turn is the turn of one goroutine. The zero value is ready. It is not safe for concurrent use.
type Turn struct{ since time.Time }

// Take lets other goroutines run if this one has computed for a Slice since it last did. It may
// be called with locks held that others want: it does not wait.
func (t *Turn) Take() {
	if time.Since(t.since) > Slice {
		runtime.Gosched()
		t.since = time.Now()
	}
}
