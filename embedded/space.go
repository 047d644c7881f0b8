package embedded

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// spaceEvery is how often free disk space is looked at. It is one system call.
const spaceEvery = 5 * time.Second

// space watches the disk of the data folder. A JetStream that has hit a full
// disk stays unwritable until it is restarted, so new work is refused before.
type space struct {
	dir    string
	least  uint64 // bytes
	log    *slog.Logger
	low    atomic.Bool
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// watchSpace looks once before it returns, and then now and then until stop.
func watchSpace(dir string, least int64, log *slog.Logger) *space {
	ctx, cancel := context.WithCancel(context.Background())
	s := &space{dir: dir, least: uint64(max(least, 0)), log: log, cancel: cancel}
	s.look()
	s.wg.Go(func() { s.run(ctx) })
	return s
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

func (s *space) look() {
	free, err := FreeSpace(s.dir)
	if err != nil {
		s.log.Warn("free disk space can't be read", "error", err)
		return
	}
	low := free < s.least
	if s.low.Swap(low) == low {
		return
	}
	if low {
		s.log.Error("the disk is nearly full: submit requests are refused until there is room (min_free_bytes)", "dir", s.dir, "free", free, "least", s.least)
	} else {
		s.log.Info("the disk has room again", "dir", s.dir, "free", free)
	}
}

func (s *space) stop() {
	s.cancel()
	s.wg.Wait()
}
