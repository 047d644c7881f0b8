package workers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamwright/streamwright/wire"
)

func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var hanging atomic.Int32
		c := newChecker(map[string]Check{
			"a good":  func(context.Context) error { return nil },
			"b bad":   func(context.Context) error { return errors.New("bad") },
			"c panic": func(context.Context) error { panic("oh") },
			"d hangs": func(context.Context) error { hanging.Add(1); <-release; return nil },
			"e slow":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}, 50*time.Millisecond)
		for range 3 {
			got := c.run(t.Context())
			if len(got) != 4 || got[0] != (wire.FailingCheck{Check: "b bad", Error: "bad"}) || got[1].Error != "the check panicked: oh" ||
				got[2] != (wire.FailingCheck{Check: "d hangs", Error: "no result within 50ms"}) || got[3].Check != "e slow" {
				t.Fatalf("got %+v", got)
			}
		}
		if n := hanging.Load(); n != 1 {
			t.Errorf("the check that hangs was begun %d times", n)
		}
		if err := c.stop(); err != errCheckHangs {
			t.Errorf("stop: %v", err)
		}
		close(release)
		if err := c.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if got := c.run(t.Context()); got != nil {
			t.Errorf("a stopped checker says %+v", got)
		}
	})
}

func TestCheckConfig(t *testing.T) {
	good := func(context.Context) error { return nil }
	many := map[string]Check{}
	for i := range MaxChecks + 1 {
		many[strings.Repeat("x", i+1)] = good
	}
	for want, cfg := range map[string]Config{
		"at most 16":    {Checks: many},
		"1 to 64":       {Checks: map[string]Check{"": good}},
		"\"db\" is nil": {Checks: map[string]Check{"db": nil}},
		"up to 10s":     {CheckTimeout: time.Minute},
	} {
		if err := cfg.WithDefaults().Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
