package projector

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// roomAgain is the free space, in bytes, at which a store that has hit a
	// full disk resumes writing.
	roomAgain = 4 << 20
	// roomEvery is the time between two looks for free space.
	roomEvery = time.Second
	// closeOnFullDisk bounds the time that Close waits for room.
	closeOnFullDisk = 3 * time.Second
)

// fullDisk has writes wait while the disk is full. To Pebble a write that fails
// for want of room is no different from a broken disk: it tries a flush again
// without a pause, and a manifest that it can't write ends the process. Commits
// go on in memory meanwhile, and wait when that is used up.
type fullDisk struct {
	fs    vfs.FS
	dir   string
	log   *slog.Logger
	free  func() (uint64, error)
	tick  time.Duration
	since atomic.Int64 // Unix nanoseconds; 0: there is room
}

// watchDisk returns fs so that writes to it wait while the disk of dir is full.
func watchDisk(fs vfs.FS, dir string, log *slog.Logger) (vfs.FS, *fullDisk) {
	d := &fullDisk{fs: fs, dir: dir, log: log, tick: roomEvery}
	d.free = func() (uint64, error) {
		u, err := fs.GetDiskUsage(dir)
		return u.AvailBytes, err
	}
	return vfs.OnDiskFull(fs, d.wait), d
}

// wait returns when there is room again. The write that found none is then
// tried once more.
func (d *fullDisk) wait() {
	d.since.Store(time.Now().UnixNano())
	defer d.since.Store(0)
	d.log.Error("the store's disk is full: the store waits until there is room again", "folder", d.dir)
	for {
		free, err := d.free()
		if err != nil {
			d.log.Warn("free space can't be read: the store tries to write again", "error", err)
			time.Sleep(d.tick)
			return
		}
		if free >= roomAgain {
			d.log.Info("there is room again: the store goes on", "folder", d.dir)
			return
		}
		time.Sleep(d.tick)
	}
}

// waiting reports whether a write waits for room.
func (d *fullDisk) waiting() bool { return d != nil && d.since.Load() != 0 }
