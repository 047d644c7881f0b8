package embedded

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/events"
)

// spaceEvery is how often free space is looked at: a system call and a few
// counters of the server's.
const spaceEvery = time.Second

// headroomShare and maxHeadroom say how much of JetStream's storage is kept
// for what has been accepted: its transitions must find room when submissions
// no longer do.
const (
	headroomShare = 10
	maxHeadroom   = 1 << 30
)

// space watches the room for the streams. New work is refused before it is
// used up: a JetStream that has hit a full disk stays unwritable until it is
// restarted, and one at its byte limit takes no event of any kind.
type space struct {
	dir   string                              // empty: nothing is on disk
	least atomic.Uint64                       // bytes that the disk must have free
	free  func(dir string) (uint64, error)    // of the disk
	used  func() (used, most uint64, ok bool) // of JetStream's storage; nil: not ours
	told  func(full bool)                     // of each change
	log   *slog.Logger

	full   atomic.Pointer[api.Full] // nil: there is room
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
	t := time.NewTicker(spaceEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.look()
		}
	}
}

// look compares what there is with the limits. What can't be read changes
// nothing.
func (s *space) look() {
	now, err := s.judge()
	if err != nil {
		s.log.Warn("free space can't be read", "error", err)
		return
	}
	before := s.full.Swap(now)
	switch {
	case now != nil && (before == nil || before.Status != now.Status):
		s.log.Error("new work is refused until there is room again; what was accepted goes on", "why", now.Why.Message)
	case now == nil && before != nil:
		s.log.Info("there is room again: new work is accepted")
	}
	if (now == nil) != (before == nil) {
		s.told(now != nil)
	}
}

// judge says what is full, nil for nothing.
func (s *space) judge() (*api.Full, error) {
	if s.dir != "" {
		free, err := s.free(s.dir)
		if err != nil {
			return nil, err
		}
		if free < s.least.Load() {
			return full("disk_low", "the engine's disk is nearly full (%d bytes free, min_free_bytes is %d): make room there, then ask again", free, s.least.Load()), nil
		}
	}
	if s.used == nil {
		return nil, nil
	}
	used, most, ok := s.used()
	if !ok {
		return nil, errors.New("JetStream does not say what it uses")
	}
	if most > 0 && used+headroom(most, s.full.Load() != nil) > most {
		return full("store_full", "the engine's streams have nearly reached their limit (%d of %d bytes): raise max_store_bytes (in memory: max_memory_bytes) or make room, then ask again", used, most), nil
	}
	return nil, nil
}

// headroom is what must be free; half as much again to call it room once it
// was not, so that the answer does not flicker.
func headroom(most uint64, wasFull bool) uint64 {
	h := min(most/headroomShare, maxHeadroom)
	if wasFull {
		h += h / 2
	}
	return h
}

func full(status, format string, args ...any) *api.Full {
	why := events.Refuse(events.CodeUnavailable, format, args...)
	why.RetryAfter = 2 * spaceEvery
	return &api.Full{Status: status, Why: why}
}

func (s *space) stop() {
	s.cancel()
	s.wg.Wait()
}

// watchSpace begins to watch the room that the engine has.
func (e *Engine) watchSpace() {
	s := &space{free: FreeSpace, told: e.dispatcher.PauseIntake, log: e.log}
	s.least.Store(uint64(max(e.cfg.Limits.MinFreeBytes, 0)))
	if e.dir != nil {
		s.dir = e.dir.path
	}
	if e.srv != nil {
		s.used = func() (uint64, uint64, bool) { return storageUsed(e.srv.ns, e.o.Memory) }
	}
	e.space = s
	s.watch()
}

// isFull is what stands in the way of new work, nil for nothing.
func (e *Engine) isFull() *api.Full {
	if e.space == nil {
		return nil
	}
	return e.space.full.Load()
}

// storageUsed is how much the server's streams hold, and may.
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
