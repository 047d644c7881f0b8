package projector

import (
	"context"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
)

// The clock of a log can be set back. The store is that which a replay makes,
// keys that had expired included, and the past before and after can be asked for.
func TestClockThatIsSetBack(t *testing.T) {
	live := openMem(t)
	s := newSim(t, 5, live)
	s.do(core.Own{Owner: "o"})
	s.run(600, 50)
	right := s.now
	// One commit has keys from before and after, and the clock ahead in between.
	for _, by := range []time.Duration{45 * 24 * time.Hour, time.Hour} {
		s.now = s.now.Add(by)
		s.run(300, 70)
		s.step()
		s.now = right
		s.do(core.Own{Owner: "o", Clock: &core.AcceptClock{At: s.now, By: "ops"}})
		s.run(200, 60)
	}
	m, err := live.Meta()
	if err != nil || !m.Ahead.After(s.now) || m.SetBackAt == 0 || !m.SetBackTo.Equal(right.UTC().Round(0)) || m.LastAt.After(m.Ahead) {
		t.Fatalf("%+v, %v", m, err)
	}
	res, err := live.Verify(context.Background(), s.log, nil)
	if err != nil || !res.Equal {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, at := range []struct {
		when time.Time
		most events.Seq
	}{{m.LastAt, m.Applied}, {right.Add(-time.Nanosecond), m.SetBackAt - 1}} {
		err := live.AsOf(context.Background(), s.log, live.Applied(), at.when, nil, func(then *Store) error {
			if got := then.Applied(); got > at.most || at.most == m.Applied && got < at.most {
				t.Errorf("as of %v: event %d", at.when, got)
			}
			return nil
		})
		if err != nil {
			t.Errorf("as of %v: %v", at.when, err)
		}
	}
	for _, id := range s.ids {
		if _, found, err := query.Of(live).ItemAt(id, 0, m.LastAt); err != nil {
			t.Fatalf("%s: %v %v", id, found, err)
		}
	}
}
