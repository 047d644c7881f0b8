package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/streamwright/streamwright/eventlog"
)

// clockFile holds the time when the NATS server's clock was last plausible. It
// lies beside the store, so that it outlives one that is made anew.
const clockFile = "CLOCK"

// clockMemory keeps a time in the data folder, and when that was by the machine's clock
// that counts since it was started and that nobody sets. It survives the process, not a
// power loss: an older time, or none, only makes the next start more careful.
type clockMemory struct {
	file  string
	since func() (boot string, up time.Duration, ok bool) // sinceBoot

	mu     sync.Mutex // held while the file is written
	failed bool       // the last write has
	warn   func(msg string, args ...any)
}

// known returns the noted time, or zero. If the machine has run ever since, it returns what
// time it must be now.
func (m *clockMemory) known() (t time.Time, measured bool) {
	text, err := readShort(m.file)
	noted, run, _ := strings.Cut(text, "\n")
	if err == nil {
		t, err = time.Parse(time.RFC3339Nano, noted)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.warn("the time of the previous run can't be read: going by the last event", "file", m.file, "error", err)
	}
	then, at, found := strings.Cut(strings.TrimSpace(run), " ")
	was, bad := time.ParseDuration(at)
	boot, up, ok := m.since()
	if err != nil || !found || bad != nil || !ok || then != boot || up < was {
		return t, false
	}
	return t.Add(up - was), true
}

func (m *clockMemory) note(t time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := t.UTC().Format(time.RFC3339Nano) + "\n"
	if boot, up, ok := m.since(); ok {
		text += boot + " " + up.String() + "\n"
	}
	err := replaceFile(m.file, text, false)
	if err != nil && !m.failed {
		m.warn("the time can't be noted for the next run", "error", err)
	}
	m.failed = err != nil
}

// clock returns what reads and notes the time in the data folder.
func (d *dataDir) clock(log *slog.Logger) (known func() (time.Time, bool), note func(time.Time)) {
	m := &clockMemory{file: filepath.Join(d.path, clockFile), since: sinceBoot, warn: log.Warn}
	return m.known, m.note
}

// Advance moves the clock of an engine in memory ahead by d, for tests of
// programs that submit work for later: work due by then is done at once. Time
// continues from there. Only the engine's clock moves: leases and workers'
// timeouts keep real time.
func (e *Engine) Advance(ctx context.Context, d time.Duration) error {
	switch {
	case !e.o.Memory:
		return errors.New("advance the clock: the engine keeps its data: start it with Options.Memory")
	case d < 0:
		return fmt.Errorf("advance the clock: the time is %s: it must not be negative", d)
	}
	e.ledger.advanced.Add(int64(d))
	return e.decider.dispatcher.FollowClock(ctx)
}

// Now returns the time by the engine's clock.
func (e *Engine) Now() time.Time { return e.decider.dispatcher.Now() }

// skewedLog is a log on a server with a wrong clock, for tests.
type skewedLog struct {
	eventlog.Log
	skew func() time.Duration
}

func (l skewedLog) Last(ctx context.Context) (eventlog.Tip, error) {
	tip, err := l.Log.Last(ctx)
	tip.Time = tip.Time.Add(l.skew())
	return tip, err
}
