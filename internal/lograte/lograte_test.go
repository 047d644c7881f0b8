package lograte

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int
		l := New(3, func(left int) { told = append(told, left) })
		allowed := func(lines int) (n int) {
			for range lines {
				if l.Allow() {
					n++
				}
			}
			return n
		}
		if n := allowed(3); n != 3 {
			t.Errorf("%d of 3 lines", n)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("nothing was left out, and %v told", told)
		}
		if n := allowed(10); n != 3 {
			t.Errorf("%d of 10 lines", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := allowed(2); n != 0 {
			t.Errorf("%d more in the same second", n)
		}
		time.Sleep(time.Second) // nobody asks meanwhile
		synctest.Wait()
		if n := allowed(4); n != 3 {
			t.Errorf("%d of 4 lines, a second later", n)
		}
		l.Flush()
		l.Flush()
		if !slices.Equal(told, []int{9, 1}) {
			t.Errorf("left out: %v", told)
		}
	})
}
