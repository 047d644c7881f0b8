package embedded

import (
	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/embedded/room"
)

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
func (b *base) share(setting string, wanted, usual int64) int64 {
	total := b.srv.storage(b.o.Memory)
	if total <= 0 {
		return wanted
	}
	kept := min(wanted, max(total/sideShare, 1))
	if kept < wanted && wanted != usual {
		b.log.Warn(setting+" is more than its share of the storage: less is kept", setting, wanted, "kept", kept)
	}
	return kept
}

// watchSpace begins to watch the room that the engine has.
func (d *decider) watchSpace() {
	c := room.Config{Least: uint64(max(d.cfg.Limits.MinFreeBytes, 0)), Free: FreeSpace, Log: d.log, Dir: d.dir.root(), Told: func(full bool, hold string) {
		d.dispatcher.HoldDispatch(hold)
		d.dispatcher.PauseIntake(full)
	}}
	if d.srv != nil {
		c.Used = func() (uint64, uint64, bool) { return storageUsed(d.srv.ns(), d.o.Memory) }
		c.Failed, c.Restart = d.srv.fault, d.srv.restart
	}
	d.space = room.Start(c)
	d.ledger.lease.full = d.space.Full
}

func (d *decider) closeSpace() { d.space.Stop() }

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
