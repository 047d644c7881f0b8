package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

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

// space watches the room for the streams. New work is refused before it is
// used up, and lower down nothing new is begun. A JetStream that has hit a full
// disk all the same takes no more writes until it is restarted, which is done as
// soon as there is room. One at its byte limit takes no event of any kind.
type space struct {
	dir   string                              // empty: nothing is on disk
	size  dataSize                            // of dir
	least atomic.Uint64                       // bytes that the disk must have free
	free  func(dir string) (uint64, error)    // of the disk
	used  func() (used, most uint64, ok bool) // of JetStream's storage; nil: not ours
	told  func(full bool, hold string)        // of each change; hold says why nothing new is begun, empty: it is
	// failed is the server's first message about a failed write since it was
	// started, empty for none; nil: the server is not ours.
	failed  func() string
	restart func() error // of that server
	log     *slog.Logger

	full      atomic.Pointer[api.RoomAlarm] // nil: there is room
	restarted atomic.Uint64                 // restarts that succeeded

	// Owned by whoever calls look.
	near        bool      // look again soon
	nextRestart time.Time // not sooner
	restartWait time.Duration

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// watch looks once before it returns, and then now and then until stop.
func (s *space) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.look()
	s.wg.Go(func() { s.run(ctx) })
}

func (s *space) run(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.look()
			every := spaceEvery
			if s.near {
				every = nearEvery
			}
			t.Reset(every)
		}
	}
}

// look compares what there is with the limits. What can't be read changes
// nothing.
func (s *space) look() {
	now, err := s.judge()
	if err != nil {
		s.log.Warn("free space can't be read", "error", err)
		s.near = false
		// The server may be down. If only its use can't be read, the disk has room: in a
		// cluster, a full disk has JetStream switched off, and the last alarm stays.
		if f := s.full.Load(); f == nil || !f.Hold || errors.Is(err, errUnreadable) {
			s.repair(time.Now())
		}
		return
	}
	before := s.full.Swap(now)
	hold := now != nil && now.Hold
	held := before != nil && before.Hold
	switch {
	case hold && !held:
		s.log.Error("nothing new is begun until there is room again; what runs goes on", "why", now.Why.Message)
	case now != nil && (before == nil || before.Status != now.Status):
		s.log.Error("new work is refused until there is room again; what was accepted goes on", "why", now.Why.Message)
	case now != nil && held && !hold:
		s.log.Info("there is some room again: what was accepted is dispatched")
	case now == nil && before != nil:
		s.log.Info("there is room again: new work is accepted")
	}
	if (now == nil) != (before == nil) || hold != held {
		why := ""
		if hold {
			why = now.Why.Message
		}
		s.told(now != nil, why)
	}
	if !hold {
		s.repair(time.Now())
	}
}

// repair restarts a server that could not write a file, now that there is room.
// If it can't write again soon, the next restart comes later.
func (s *space) repair(now time.Time) {
	if s.failed == nil || now.Before(s.nextRestart) {
		return
	}
	why := s.failed()
	if why == "" {
		if now.Sub(s.nextRestart) > maxRestart {
			s.restartWait = 0
		}
		return
	}
	s.restartWait = min(max(2*s.restartWait, minRestart), maxRestart)
	s.log.Warn("the NATS server could not write, and takes no more writes until it is restarted: restarting it", "why", why)
	err := s.restart()
	s.nextRestart = time.Now().Add(s.restartWait)
	if err != nil {
		s.log.Error("the NATS server could not be restarted: trying again", "error", err, "in", s.restartWait)
		return
	}
	s.restarted.Add(1)
	s.log.Info("the NATS server was restarted: the engine takes its log over again")
}

// errUnreadable says that the disk has room, and that nothing is known of JetStream.
var errUnreadable = errors.New("JetStream does not say what it uses")

// judge returns an alarm that says what is full, or nil.
func (s *space) judge() (*api.RoomAlarm, error) {
	s.near = false
	if s.dir != "" {
		free, err := s.free(s.dir)
		if err != nil {
			return nil, err
		}
		s.near = free/nearTimes < s.least.Load()
		if least := s.least.Load(); free < least {
			f := full(wire.AlarmDiskLow, fmt.Sprintf("the engine's disk is nearly full (%s free, min_free_bytes is %s)", api.Size(free), api.Size(least)), "make room on that disk, or lower min_free_bytes")
			f.Hold = free < s.mark(least/holdShare)
			return f, nil
		}
	}
	if s.used == nil {
		return nil, nil
	}
	used, most, ok := s.used()
	if !ok {
		return nil, errUnreadable
	}
	s.near = s.near || most > 0 && used+nearTimes*headroom(most, false) > most
	if most > 0 && used+headroom(most, s.full.Load() != nil) > most {
		f := full(wire.AlarmStoreFull, fmt.Sprintf("the engine's streams have nearly reached their limit (%s of %s)", api.Size(used), api.Size(most)), "raise max_store_bytes (in memory: max_memory_bytes), or make room with shorter retention and `engine cut`")
		f.Hold = used+s.mark(headroom(most, false)/holdShare) > most
		return f, nil
	}
	return nil, nil
}

// mark returns what must be free for new work to be begun; half as much again once it
// was not.
func (s *space) mark(free uint64) uint64 {
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

func (s *space) stop() {
	s.cancel()
	s.wg.Wait()
}

// watchSpace begins to watch the room that the engine has.
func (e *Engine) watchSpace() {
	s := &space{free: FreeSpace, told: func(full bool, hold string) {
		e.dispatcher.HoldDispatch(hold)
		e.dispatcher.PauseIntake(full)
	}, log: e.log}
	s.least.Store(uint64(max(e.cfg.Limits.MinFreeBytes, 0)))
	if e.dir != nil {
		s.dir = e.dir.path
	}
	if e.srv != nil {
		s.used = func() (uint64, uint64, bool) { return storageUsed(e.srv.ns(), e.o.Memory) }
		s.failed, s.restart = e.srv.fault, e.srv.restart
	}
	e.space = s
	s.watch()
}

// storageUsed returns how much the server's streams hold, and may.
func storageUsed(ns *natsserver.Server, memory bool) (used, most uint64, ok bool) {
	info, err := ns.Jsz(nil)
	if err != nil || info.Disabled {
		return 0, 0, false
	}
	if memory {
		return info.Memory, uint64(max(info.Config.MaxMemory, 0)), true
	}
	return info.Store, uint64(max(info.Config.MaxStore, 0)), true
}
