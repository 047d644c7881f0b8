package shared

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Who asks while a request is under way gets the answer of the next, with all the others.
func TestAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Asker[int]
		var calls atomic.Int64
		goOn := make(chan struct{})
		fn := func() (int, error) {
			n := calls.Add(1)
			<-goOn
			return int(n), nil
		}
		answers := make(chan int, 6)
		ask := func() {
			n, err := a.Ask(t.Context(), fn)
			if err != nil {
				t.Error(err)
			}
			answers <- n
		}
		go ask()
		synctest.Wait()
		for range 5 {
			go ask()
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Ask(gone, fn); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone: %v", err)
		}
		close(goOn)
		synctest.Wait()
		of := map[int]int{}
		for range 6 {
			of[<-answers]++
		}
		if calls.Load() != 2 || of[1] != 1 || of[2] != 5 {
			t.Errorf("%d calls, answers of each: %v", calls.Load(), of)
		}
	})
}
