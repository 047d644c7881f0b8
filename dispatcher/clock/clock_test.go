package clock

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// machine is what a clock reads of its machine.
type machine struct {
	local  time.Time
	slept  time.Duration
	synced *bool // nil: it can't tell
	server time.Time
}

func (m *machine) source() Source {
	s := Source{Local: func() time.Time { return m.local }, MaxJump: DefaultMaxJump, Sleep: func() time.Duration { return m.slept }}
	if m.synced != nil {
		s.Synced = func() (time.Time, bool) { return m.server, *m.synced }
	}
	return s
}

func (m *machine) pass(d time.Duration) {
	m.local, m.server = m.local.Add(d), m.server.Add(d)
}

// Whether a server's clock that is ahead at a start is followed depends on what is known of
// the time that has passed.
func TestAheadAtAStart(t *testing.T) {
	last := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	yes, no := true, false
	for name, c := range map[string]struct {
		ahead    time.Duration // of the log's last event
		off      time.Duration // how long the engine was off, if that was measured
		synced   *bool
		want     string
		followed time.Duration // after which it is followed all the same; 0: never
	}{
		"a short stop":                         {ahead: 4 * time.Minute, synced: &no, want: wire.ClockPlausible},
		"2 h off, measured":                    {ahead: 2 * time.Hour, off: 2 * time.Hour, synced: &no, want: wire.ClockPlausible},
		"a month off, measured":                {ahead: 720 * time.Hour, off: 720 * time.Hour, synced: &no, want: wire.ClockPlausible},
		"2 h ahead, measured":                  {ahead: 2*time.Hour + time.Second, off: time.Second, synced: &no, want: wire.ClockAhead},
		"2 h ahead, measured, can't be synced": {ahead: 2*time.Hour + time.Second, off: time.Second, want: wire.ClockAhead},
		"2 h ahead, synchronised":              {ahead: 2*time.Hour + time.Second, off: time.Second, synced: &yes, want: wire.ClockPlausible},
		"a night off":                          {ahead: 9 * time.Hour, want: wire.ClockPlausible},
		"a night off, not synchronised yet":    {ahead: 9 * time.Hour, synced: &no, want: wire.ClockAhead, followed: SettleWithin},
		"a night off, synchronised":            {ahead: 9 * time.Hour, synced: &yes, want: wire.ClockPlausible},
		"a month off":                          {ahead: 720 * time.Hour, synced: &no, want: wire.ClockAhead},
		"a month off, synchronised":            {ahead: 720 * time.Hour, synced: &yes, want: wire.ClockPlausible},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{local: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), server: last.Add(c.ahead), synced: c.synced}
			st := Start{Server: m.server, LastEvent: last, Known: last}
			if c.off > 0 {
				st.Known, st.Measured = last.Add(c.off), true
			}
			k := New(m.source(), st)
			if s := k.Status(); s.Verdict != c.want || s.Plausible() != (s.Why == "") {
				t.Fatalf("%s %s", s.Verdict, s.Why)
			}
			if c.want == wire.ClockPlausible {
				if d := m.server.Sub(k.Now()); d != 0 {
					t.Errorf("it is plausible, and the engine's clock differs by %s", d)
				}
				return
			}
			if d := k.Now().Sub(Later(last, st.Known)); d != 0 {
				t.Errorf("it is not followed, and the engine's clock has gone on by %s", d)
			}
			// Another ownership in this process knows no more.
			m.pass(time.Minute)
			st.Before = k
			if s := New(m.source(), st).Status(); s.Verdict != c.want {
				t.Errorf("the next ownership: %s", s.Verdict)
			}
			m.pass(SettleWithin - 2*time.Minute)
			if k.Correct(m.server); k.Status().Verdict != wire.ClockAhead {
				t.Errorf("after four minutes: %s", k.Status().Verdict)
			}
			m.pass(2 * time.Minute)
			k.Correct(m.server)
			if got := k.Status().Verdict; (got == wire.ClockPlausible) != (c.followed > 0) {
				t.Errorf("after six minutes: %s", got)
			}
		})
	}
}

// While the engine runs, it knows what time has passed: a jump above minutes is not
// followed, unless the machine has slept or its clock is synchronised.
// Who follows a clock that is far ahead and can't tell whether it is right says so.
func TestFollowedAheadAtAStartIsLogged(t *testing.T) {
	last := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	yes := true
	for name, c := range map[string]struct {
		ahead   time.Duration
		off     time.Duration // measured
		synced  *bool
		empty   bool // log
		accept  *Acceptance
		maxJump time.Duration
		warned  bool
	}{
		"a night off":                    {ahead: 9 * time.Hour, warned: true},
		"just above the bound":           {ahead: MaxAhead + time.Second, warned: true},
		"any jump is allowed":            {ahead: 9000 * time.Hour, maxJump: -1, warned: true},
		"a short stop":                   {ahead: MaxAhead},
		"a night off, measured":          {ahead: 9 * time.Hour, off: 9 * time.Hour},
		"a night off, synchronised":      {ahead: 9 * time.Hour, synced: &yes},
		"a night off, and accepted":      {ahead: 9 * time.Hour, accept: &Acceptance{By: "ada", done: make(chan struct{})}},
		"a log that has nothing in it":   {ahead: 9 * time.Hour, empty: true},
		"too far, so it isn't followed":  {ahead: 25 * time.Hour},
		"a clock that has not gone back": {ahead: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{local: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), server: last.Add(c.ahead), synced: c.synced}
			var log bytes.Buffer
			p := &Partition{Source: m.source(), Log: slog.New(slog.NewTextHandler(&log, nil)), Known: func() (time.Time, bool) {
				if c.off > 0 {
					return last.Add(c.off), true
				}
				return time.Time{}, false
			}}
			if c.maxJump != 0 {
				p.MaxJump = c.maxJump
			}
			at := last
			if c.empty {
				at = time.Time{}
			}
			p.Begin(p.New(m.server, at, c.accept), c.accept)
			if warned := strings.Contains(log.String(), "can't be measured"); warned != c.warned {
				t.Errorf("it logs %q", log.String())
			}
		})
	}
}

func TestAheadWhileRunning(t *testing.T) {
	no := false
	for name, c := range map[string]struct {
		jump, slept time.Duration
		want        string
	}{
		"a correction":      {jump: 4 * time.Minute, want: wire.ClockPlausible},
		"2 h ahead":         {jump: 2 * time.Hour, want: wire.ClockAhead},
		"2 h asleep":        {jump: 2 * time.Hour, slept: 2 * time.Hour, want: wire.ClockPlausible},
		"asleep, and ahead": {jump: 5 * time.Hour, slept: 2 * time.Hour, want: wire.ClockAhead},
	} {
		for _, anew := range []bool{false, true} {
			m := &machine{local: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), server: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), synced: &no}
			k := New(m.source(), Start{Server: m.server})
			m.pass(time.Hour)
			k.Correct(m.server)
			m.pass(time.Second)
			m.server, m.slept = m.server.Add(c.jump), m.slept+c.slept
			if anew {
				k = New(m.source(), Start{Server: m.server, LastEvent: k.Now().Add(-time.Second), Before: k})
			} else {
				k.Correct(m.server)
			}
			if s := k.Status(); s.Verdict != c.want {
				t.Errorf("%s, a new ownership %t: %s: %s", name, anew, s.Verdict, s.Why)
			}
		}
	}
}
