package sleep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if err := For(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, wait := time.Now(), time.Second
		for range 3 {
			if err := Longer(t.Context(), &wait, 3*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if at := (<-After(&wait, 3*time.Second)).Sub(began); at != (1+2+3+3)*time.Second {
			t.Errorf("four waits end after %s", at)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Longer(ctx, &wait, time.Hour); !errors.Is(err, context.Canceled) || wait != 6*time.Second {
			t.Errorf("%v, and the next wait is %s", err, wait)
		}
	})
}
