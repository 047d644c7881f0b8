package policy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// A limit at dispatch whose burst is not set never lets more than N begin in
// any interval, and lets N-N/20 begin in each when as many as may do.
func TestNoMoreThanNBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := events.RateLimit{At: events.AtDispatch, N: rapid.IntRange(1, 200).Draw(t, "n"), Interval: events.Millis(1000)}
		now, tat := time.Unix(1000, 0), time.Time{}
		var begun []time.Time
		for range 3 * r.N {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*r.Step())).Draw(t, "pass")))
			at, ok := Take(r, tat, now, 0)
			if !ok {
				now = at
				at, _ = Take(r, tat, now, 0)
			}
			tat, begun = at, append(begun, now)
			if n := len(begun) - 1 - r.N; n >= 0 && now.Sub(begun[n]) < time.Second {
				t.Fatalf("%d began within %s", r.N+1, now.Sub(begun[n]))
			}
		}
	})
	for _, n := range []int{1, 5, 19, 20, 100, 1000} {
		r := events.RateLimit{At: events.AtDispatch, N: n, Interval: events.Millis(1000)}
		now, tat, count := time.Unix(1000, 0), time.Time{}, 0
		for end := now.Add(10 * time.Second); now.Before(end); {
			at, ok := Take(r, tat, now, 0)
			if !ok {
				now = at
				continue
			}
			tat = at
			count++
		}
		if least := 10 * (n - n/20); count < least || count > 10*n {
			t.Errorf("%d/s: %d in ten seconds, want %d to %d", n, count, least, 10*n)
		}
	}
}

// What fits behind those on their way fits whenever those come through, unless the limit
// begins anew meanwhile: the bucket is at most empty here.
func TestRatesAheadAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := events.RateLimit{N: rapid.IntRange(1, 5).Draw(t, "n"), Interval: events.Millis(1000), Burst: rapid.IntRange(1, 9).Draw(t, "burst")}
		now := time.Unix(1000, 0)
		empty := time.Duration(r.AtOnce()) * r.Step()
		tat := now.Add(time.Duration(rapid.IntRange(-1000, int(empty/time.Millisecond)).Draw(t, "tat")) * time.Millisecond)
		n := 0
		for ; n < 20; n++ {
			if _, ok := Take(r, tat, now, n); !ok {
				break
			}
		}
		for range n {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pass")) * time.Millisecond)
			at, ok := Take(r, tat, now, 0)
			if !ok {
				t.Fatalf("one of %d that were let on their way is refused", n)
			}
			tat = at
		}
	})
}

// A limit that a wrong clock, or a larger burst, has used up for hours to come begins anew.
func TestRatesBeginAnew(t *testing.T) {
	r, now := events.RateLimit{N: 10, Interval: events.Millis(1000), Burst: 10}, time.Unix(1000, 0)
	tat := now.Add(2 * time.Hour)
	for range 30 {
		now = now.Add(100 * time.Millisecond)
		if at, ok := Take(r, tat, now, 0); ok {
			return
		} else if at.After(now.Add(time.Second)) {
			t.Fatalf("it opens in %s", at.Sub(now))
		}
	}
	t.Error("it never opens")
}
