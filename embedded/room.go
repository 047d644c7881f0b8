package embedded

import (
	"github.com/streamwright/streamwright/config"
)

const (
	// maxIntakeBytes bounds the submissions that wait to be decided.
	maxIntakeBytes = 1 << 30
	// sideShare is the part of the storage that the intake, and the items' logs,
	// may each reserve: the server sets a stream's byte limit aside in full, and
	// the rest is for the truth.
	sideShare = 8
)

// sideBytes are the byte limits of the intake and of the items' logs, in a
// server that has so much storage for all streams (0: not known).
func sideBytes(total, logs int64) (intake, log int64) {
	if total <= 0 {
		return maxIntakeBytes, logs
	}
	share := max(total/sideShare, 1)
	return min(maxIntakeBytes, share), min(logs, share)
}

// storage is how much the server has for the streams that hold what the engine
// must keep; 0 if it is not ours.
func (e *Engine) storage() int64 {
	if e.srv == nil {
		return 0
	}
	c := e.srv.ns().JetStreamConfig()
	switch {
	case c == nil:
		return 0
	case e.o.Memory:
		return c.MaxMemory
	}
	return c.MaxStore
}

func (e *Engine) logsBytes() int64 {
	_, logs := sideBytes(e.storage(), e.cfg.Limits.LogMaxBytes)
	if logs < e.cfg.Limits.LogMaxBytes && e.cfg.Limits.LogMaxBytes != config.Default().Limits.LogMaxBytes {
		e.log.Warn("log_max_bytes is more than its share of the storage: less is kept", "log_max_bytes", e.cfg.Limits.LogMaxBytes, "kept", logs)
	}
	return logs
}

func (e *Engine) intakeBytes() int64 {
	intake, _ := sideBytes(e.storage(), e.cfg.Limits.LogMaxBytes)
	return intake
}
