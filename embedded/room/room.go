// Package room watches the room that an engine has: on the disk of its data folder, and in
// the storage of its NATS server.
package room

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// spaceEvery is the time between two looks at free space: a system call and a
// few of the server's counters. nearEvery replaces it while less than nearTimes
// the required space is free: submissions can fill hundreds of megabytes a
// second.
const (
	spaceEvery = time.Second
	nearEvery  = 50 * time.Millisecond
	nearTimes  = 8
)

// headroomShare and maxHeadroom bound the part of JetStream's storage that is
// kept for accepted items: their transitions must find room when submissions no
// longer do.
const (
	headroomShare = 10
	maxHeadroom   = 1 << 30
)

// holdShare is the part of the room kept free at which nothing new is begun any
// more: no dispatch, no schedule, no spawn. From there on it is for what runs.
const holdShare = 2

// The waits between two restarts of a server that could not write.
const (
	minRestart = 5 * time.Second
	maxRestart = time.Minute
)

// Config says what to watch.
type Config struct {
	Dir   string                              // the data folder; empty: nothing is on disk
	Least uint64                              // bytes that its disk must have free
	Free  func(dir string) (uint64, error)    // of the disk
	Used  func() (used, most uint64, ok bool) // of JetStream's storage; nil: not ours
	// Failed is the server's first message about a failed write since it was
	// started, empty for none; nil: the server is not ours.
	Failed  func() string
	Restart func() error // of that server
	Log     *slog.Logger
}

// Watch watches the room for the streams. New work is refused before it is
// used up, and lower down nothing new is begun. A JetStream that has hit a full
// disk all the same takes no more writes until it is restarted, which is done as
// soon as there is room. One at its byte limit takes no event of any kind.
type Watch struct {
	c     Config
	least atomic.Uint64
	size  dataSize                      // of Dir
	full  atomic.Pointer[api.RoomAlarm] // nil: there is room

	mu    sync.Mutex
	hears []*listener // guarded by mu

	// Owned by whoever calls Look.
	near        bool      // look again soon
	nextRestart time.Time // not sooner
	restartWait time.Duration

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Start looks once before it returns, and then now and then until Stop.
func Start(c Config) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	s := newWatch(c)
	s.cancel = cancel
	s.Look()
	s.wg.Go(func() { s.run(ctx) })
	return s
}

func newWatch(c Config) *Watch {
	s := &Watch{c: c}
	s.least.Store(c.Least)
	return s
}

// Full returns what is full; nil: there is room.
func (s *Watch) Full() *api.RoomAlarm { return s.full.Load() }

// listener is one who is told of changes.
type listener struct{ tell func(full bool, hold string) }

// Listen calls tell with what holds now, and then with each change, one call at a time: whether
// new work is refused, and why nothing new is begun; empty: it is. Once end has returned it is
// called no more. tell must not listen, or end that.
func (s *Watch) Listen(tell func(full bool, hold string)) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{tell}
	s.hears = append(s.hears, l)
	tell(told(s.full.Load()))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hears = slices.DeleteFunc(s.hears, func(o *listener) bool { return o == l })
	}
}

// told says what listeners are told of an alarm.
func told(a *api.RoomAlarm) (full bool, hold string) {
	if a != nil && a.Hold {
		hold = a.Why.Message
	}
	return a != nil, hold
}

// SetLeast changes the bytes that the disk must have free.
func (s *Watch) SetLeast(bytes uint64) { s.least.Store(bytes) }

// Stop ends the watch. Then only Look looks.
func (s *Watch) Stop() {
	s.cancel()
	s.wg.Wait()
}

func (s *Watch) run(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.Look()
			every := spaceEvery
			if s.near {
				every = nearEvery
			}
			t.Reset(every)
		}
	}
}

// Look compares what there is with the limits. What can't be read changes
// nothing.
func (s *Watch) Look() {
	now, err := s.judge()
	if err != nil {
		s.c.Log.Warn("free space can't be read", "error", err)
		s.near = false
		// The server may be down. If only its use can't be read, the disk has room: in a
		// cluster, a full disk has JetStream switched off, and the last alarm stays.
		if f := s.full.Load(); f == nil || !f.Hold || errors.Is(err, errUnreadable) {
			s.repair(time.Now())
		}
		return
	}
	if !s.change(now) {
		s.repair(time.Now())
	}
}

// change keeps the alarm of a look, logs and tells what is new, and reports whether nothing
// new is begun.
func (s *Watch) change(now *api.RoomAlarm) (hold bool) {
	s.mu.Lock() // so that who comes now hears of this once, and who has gone does not
	defer s.mu.Unlock()
	before := s.full.Swap(now)
	hold = now != nil && now.Hold
	held := before != nil && before.Hold
	switch {
	case hold && !held:
		s.c.Log.Error("nothing new is begun until there is room again; what runs goes on", "why", now.Why.Message)
	case now != nil && (before == nil || before.Status != now.Status):
		s.c.Log.Error("new work is refused until there is room again; what was accepted goes on", "why", now.Why.Message)
	case now != nil && held && !hold:
		s.c.Log.Info("there is some room again: what was accepted is dispatched")
	case now == nil && before != nil:
		s.c.Log.Info("there is room again: new work is accepted")
	}
	if (now == nil) != (before == nil) || hold != held {
		for _, l := range s.hears {
			l.tell(told(now))
		}
	}
	return hold
}

// repair restarts a server that could not write a file, now that there is room.
// If it can't write again soon, the next restart comes later.
func (s *Watch) repair(now time.Time) {
	if s.c.Failed == nil || now.Before(s.nextRestart) {
		return
	}
	why := s.c.Failed()
	if why == "" {
		if now.Sub(s.nextRestart) > maxRestart {
			s.restartWait = 0
		}
		return
	}
	s.restartWait = min(max(2*s.restartWait, minRestart), maxRestart)
	s.c.Log.Warn("the NATS server could not write, and takes no more writes until it is restarted: restarting it", "why", why)
	err := s.c.Restart()
	s.nextRestart = time.Now().Add(s.restartWait)
	if err != nil {
		s.c.Log.Error("the NATS server could not be restarted: trying again", "error", err, "in", s.restartWait)
		return
	}
	s.c.Log.Info("the NATS server was restarted: the engine takes its log over again")
}

// errUnreadable says that the disk has room, and that nothing is known of JetStream.
var errUnreadable = errors.New("JetStream does not say what it uses")

// judge returns an alarm that says what is full, or nil.
func (s *Watch) judge() (*api.RoomAlarm, error) {
	s.near = false
	if s.c.Dir != "" {
		free, err := s.c.Free(s.c.Dir)
		if err != nil {
			return nil, err
		}
		s.near = free/nearTimes < s.least.Load()
		if least := s.least.Load(); free < least {
			f := full(wire.AlarmDiskLow, fmt.Sprintf("the engine's disk is nearly full (%s free, min_free is %s)", api.Size(free), api.Size(least)), "make room on that disk, or lower min_free")
			f.Hold = free < s.mark(least/holdShare)
			return f, nil
		}
	}
	if s.c.Used == nil {
		return nil, nil
	}
	used, most, ok := s.c.Used()
	if !ok {
		return nil, errUnreadable
	}
	s.near = s.near || most > 0 && used+nearTimes*headroom(most, false) > most
	if most > 0 && used+headroom(most, s.full.Load() != nil) > most {
		f := full(wire.AlarmStoreFull, fmt.Sprintf("the engine's streams have nearly reached their limit (%s of %s)", api.Size(used), api.Size(most)), "raise max_store (in memory: max_memory), or make room with shorter retention and `engine cut`")
		f.Hold = used+s.mark(headroom(most, false)/holdShare) > most
		return f, nil
	}
	return nil, nil
}

// mark returns what must be free for new work to be begun; half as much again once it
// was not.
func (s *Watch) mark(free uint64) uint64 {
	if f := s.full.Load(); f != nil && f.Hold {
		free += free / 2
	}
	return free
}

// headroom returns what must be free; half as much again to call it room once it
// was not, so that the answer does not flicker.
func headroom(most uint64, wasFull bool) uint64 {
	h := min(most/headroomShare, maxHeadroom)
	if wasFull {
		h += h / 2
	}
	return h
}

func full(status, fact, do string) *api.RoomAlarm {
	why := events.Refuse(events.CodeUnavailable, "%s: %s, then ask again", fact, do)
	why.RetryAfter = 2 * spaceEvery
	return &api.RoomAlarm{Status: status, Fact: fact, Do: do, Why: why}
}

// sizedFor is the time for which the size of the data folder stands before its files are
// looked at again.
const sizedFor = time.Minute

// dataSize remembers how large the data folder is.
type dataSize struct {
	mu    sync.Mutex
	at    time.Time
	bytes uint64
}

// of returns the size of the files in a folder, as of at most sizedFor ago. Files that
// go meanwhile do not count.
func (d *dataSize) of(dir string) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < sizedFor {
		return d.bytes
	}
	sum := uint64(0)
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // it has gone, or its files count one by one
		}
		if info, err := e.Info(); err == nil {
			sum += uint64(info.Size())
		}
		return nil
	})
	d.at, d.bytes = time.Now(), sum
	return sum
}

// Use returns the room that the engine has, for its metrics.
func (s *Watch) Use() api.StorageUse {
	var st api.StorageUse
	if s.c.Dir != "" {
		size, least := s.size.of(s.c.Dir), s.least.Load()
		st.DataDir, st.DiskLeast = &size, &least
		if free, err := s.c.Free(s.c.Dir); err == nil {
			st.DiskFree = &free
		}
	}
	if s.c.Used != nil {
		if used, most, ok := s.c.Used(); ok {
			st.Used = &used
			if most > 0 {
				st.Most = &most
			}
		}
	}
	return st
}
