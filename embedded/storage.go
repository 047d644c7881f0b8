package embedded

import (
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/streamwright/streamwright/api"
)

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

// use returns the room that the engine has, for its metrics.
func (s *space) use() api.StorageUse {
	var st api.StorageUse
	if s.dir != "" {
		size, least := s.size.of(s.dir), s.least.Load()
		st.DataDir, st.DiskLeast = &size, &least
		if free, err := s.free(s.dir); err == nil {
			st.DiskFree = &free
		}
	}
	if s.used != nil {
		if used, most, ok := s.used(); ok {
			st.Used = &used
			if most > 0 {
				st.Most = &most
			}
		}
	}
	return st
}

const (
	// maxIntakeBytes bounds the submissions that wait to be decided.
	maxIntakeBytes = 1 << 30
	// sideShare is the part of the storage that the intake, and the items' logs,
	// may each reserve: the server sets a stream's byte limit aside in full, and
	// the rest is for the truth.
	sideShare = 8
)

// storage returns how much the server has for the streams that hold what the engine
// must keep; 0 if it is not ours.
func (s *server) storage(memory bool) int64 {
	if s == nil {
		return 0
	}
	c := s.ns().JetStreamConfig()
	switch {
	case c == nil:
		return 0
	case memory:
		return c.MaxMemory
	}
	return c.MaxStore
}

// share bounds what a stream beside the log may reserve: by the setting, and by its
// share of the storage. It warns if a setting that is not the usual one is cut.
func (e *Engine) share(setting string, wanted, usual int64) int64 {
	total := e.srv.storage(e.o.Memory)
	if total <= 0 {
		return wanted
	}
	kept := min(wanted, max(total/sideShare, 1))
	if kept < wanted && wanted != usual {
		e.log.Warn(setting+" is more than its share of the storage: less is kept", setting, wanted, "kept", kept)
	}
	return kept
}
