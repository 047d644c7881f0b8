package repeat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestMay(t *testing.T) {
	refuse := func(c events.Code) *events.Error { return events.Refuse(c, "no") }
	for name, tc := range map[string]struct {
		err            error
		again, oneOnly bool // a request that may be made twice; one that may not
		unknown        bool // of the latter
	}{
		"another engine owns the log": {err: refuse(events.CodeNotOwner), again: true, oneOnly: true},
		"nobody was there":            {err: fmt.Errorf("ask: %w", Untaken(refuse(events.CodeUnavailable))), again: true, oneOnly: true},
		"interrupted":                 {err: refuse(events.CodeUnavailable), again: true, unknown: true},
		"no answer":                   {err: refuse(events.CodeTimeout), again: true, unknown: true},
		"refused":                     {err: refuse(events.CodeNotFound)},
		"broken":                      {err: refuse(events.CodeInternal)},
		"no refusal":                  {err: errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			if May(tc.err, false) != tc.again || May(tc.err, true) != tc.oneOnly {
				t.Errorf("%v, %v", May(tc.err, false), May(tc.err, true))
			}
			told := Unknown(tc.err, true)
			if strings.Contains(told.Error(), "may have been done") != tc.unknown || events.CodeOf(told) != events.CodeOf(tc.err) {
				t.Errorf("%v", told)
			}
			if got := Unknown(tc.err, false); got != tc.err {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	b := Backoff{Min: 20 * time.Millisecond, Max: time.Second}
	for tries, most := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
		if most *= time.Millisecond; tries == 7 {
			tries = 1000
		}
		if w := b.Wait(tries); w < most/2 || w > most {
			t.Errorf("after %d tries it waits %s, want %s to %s", tries, w, most/2, most)
		}
	}
	later := &events.Error{Code: events.CodeUnavailable, RetryAfter: 5 * time.Second}
	if w := b.After(later, 0); w != 5*time.Second {
		t.Errorf("it waits %s for an engine that said 5s", w)
	}
	later.RetryAfter = time.Hour
	if w := b.After(later, 0); w != time.Minute {
		t.Errorf("it waits %s", w)
	}
	later.Code = events.CodeNotOwner
	if w := b.After(later, 1000); w != OwnerWait {
		t.Errorf("it waits %s for an owner", w)
	}
	if Timeout(0, time.Minute) != FirstTry || Timeout(2, time.Minute) != 4*FirstTry || Timeout(1000, time.Minute) != time.Minute {
		t.Error("the time of a try does not double up to its bound")
	}
}
