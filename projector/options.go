package projector

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/turns"
)

// Options are a Store's. The zero value is good for production.
type Options struct {
	// InMemory keeps everything in memory, gone at Close; the folder is not
	// touched.
	InMemory bool
	// CacheBytes is the block cache's own memory; the cache also uses what
	// memtables leave. Default 16 MiB, at least 1 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one memtable; at most two of them exist,
	// so CacheBytes + 2 MemTableBytes bound the store's memory. Default 8 MiB,
	// 1 MiB to 1 GiB.
	MemTableBytes int64
	// FlushEvents and FlushEvery bound the tail that is replayed after a
	// crash: a flush begins when so many events have been committed since the
	// last one, or when the oldest of them has waited that long. Defaults
	// 500,000 and 30 s.
	FlushEvents int
	FlushEvery  time.Duration
	// KeepPruned keeps items whose retention is over, with all that is kept of them,
	// until [Store.DropPruned]. Queries show them; counters leave them out. Items that
	// an operator has purged are not kept.
	KeepPruned bool
	// Turns is the share of the processors that commits and lists take; nil: they give way to
	// nobody in particular.
	Turns *turns.Share
	// Logger hears of damage, stalls and slow disks. Default: none.
	Logger *slog.Logger

	fs   vfs.FS    // tests bring their own
	disk *fullDisk // of fs; nil: it does not wait for room
	// bulk is for a store that is being built and read little: compactions may
	// lag.
	bulk bool
	// whole is the position at which a log was last set back in time. In a
	// replay up to a time, all events before it count as past, whatever their
	// own times are.
	whole    events.Seq
	rejected rejectedLimits // zero: the constants of events
}

// The bounds on Pebble. In a program without cgo its memory is on Go's heap, whose growth
// until the next collection doubles it: three memtables of 32 MiB were more than half of
// what was live while 300,000 items were submitted.
const (
	maxMemTables  = 2  // the one that is written, and the one that is flushed
	maxL0Sublevel = 80 // writes stop while reads would look into so many
	// compactL0 is twice the sublevels that are left alone. With the default memtables they
	// have 256 MiB, as much as the level that they are merged with; fewer cost a burn-down
	// of 300,000 items half as much CPU time again.
	compactL0    = 64
	maxOpenFiles = 512
	bloomBits    = 10 // a key; one lookup in a hundred of what is absent reads a block
)

// WithDefaults returns o with defaults for its zero fields.
func (o Options) WithDefaults() Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = 16 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 8 << 20
	}
	if o.FlushEvents == 0 {
		o.FlushEvents = 500_000
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.rejected == (rejectedLimits{}) {
		o.rejected = defaultRejectedLimits
	}
	if o.fs == nil {
		o.fs = vfs.Default
		if o.InMemory {
			o.fs = vfs.NewMem()
		}
	}
	return o
}

// Validate reports every option that is out of bounds, joined. Zero options
// are valid.
func (o Options) Validate() error {
	o = o.WithDefaults()
	var errs []error
	check := func(name string, v, lo, hi int64) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("projector option %s is %d: it must be %d to %d", name, v, lo, hi))
		}
	}
	check("CacheBytes", o.CacheBytes, 1<<20, 1<<40)
	check("MemTableBytes", o.MemTableBytes, 1<<20, 1<<30)
	check("FlushEvents", int64(o.FlushEvents), 1, 1<<40)
	check("FlushEvery", int64(o.FlushEvery), int64(time.Millisecond), int64(24*time.Hour))
	return errors.Join(errs...)
}

// on has the store of a folder wait while its disk is full.
func (o Options) on(dir string) Options {
	if o.fs == vfs.Default {
		o.fs, o.disk = watchDisk(o.fs, dir, o.Logger)
	}
	return o
}

// pebble translates the options.
func (o Options) pebble() *pebble.Options {
	po := &pebble.Options{
		FS:                 o.fs,
		DisableWAL:         true, // the log is the truth; see the package comment
		FormatMajorVersion: pebble.FormatNewest,
		// Pebble takes the memtables out of the cache's share.
		CacheSize:                   o.CacheBytes + maxMemTables*o.MemTableBytes,
		MemTableSize:                uint64(o.MemTableBytes),
		MemTableStopWritesThreshold: maxMemTables,
		L0CompactionThreshold:       compactL0,
		L0StopWritesThreshold:       maxL0Sublevel,
		LBaseMaxBytes:               256 << 20,
		MaxOpenFiles:                maxOpenFiles,
		// One compaction at a time leaves the machine to the engine; a second
		// one helps when the first can't keep up.
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		Logger:                     pebbleLogger{o.Logger},
	}
	po.TargetFileSizes[0] = 8 << 20
	// While a backlog is worked off, each flush is full of deleted index entries, and
	// Pebble would compact it again at once: four fifths of what compactions wrote in a
	// burn-down of 300,000 items. Without that, listing a state that 1,200,000 items have
	// just left took 11 ms instead of 3, until the ordinary compactions.
	po.Experimental.TombstoneDenseCompactionThreshold = -1
	if o.bulk {
		// Nobody waits for it, and few flushes are fast.
		po.MemTableSize = max(po.MemTableSize, 64<<20)
		po.MemTableStopWritesThreshold = 3
		po.L0CompactionThreshold, po.L0StopWritesThreshold = 16, 64
	}
	for i := range po.Levels {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
		po.Levels[i].BlockSize = 16 << 10
		// Measured on replays of items with 256 bytes of params, before histories
		// were packed: 178 bytes an event on disk; zstd comes to 100 to 115 for a tenth more CPU, no
		// compression to 750.
		po.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	po.EnsureDefaults()
	return po
}

// pebbleLogger hands Pebble's messages on.
type pebbleLogger struct{ log *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble can't go on without risking its files. It must
// not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	msg := "pebble: " + fmt.Sprintf(format, args...)
	l.log.Error(msg)
	panic(msg)
}
