package dispatcher

import (
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// RaiseFormat raises the log to a format level, for good; a log that is there already is
// left as it is. Programs that do not read the level refuse the log from then on, so the
// owner calls it once every node has said that it reads it: see [events.RaiseTo]. It
// returns the position from which on the level holds, durably.
//
// Its error is an *events.Error: CodeBadRequest if this program does not read the level
// itself.
func (e *Engine) RaiseFormat(ctx context.Context, level int) (events.Seq, error) {
	out, err := e.one(ctx, core.RaiseFormat{Level: level, Version: e.cfg.Version})
	return out.Position, err
}

// FormatLevels returns the log's format level, as the projection has it, and the highest
// that this engine reads.
func (e *Engine) FormatLevels() (log, reads int, err error) {
	m, err := e.cfg.Store.Meta()
	return max(1, m.Level), e.cfg.FormatLevel, err
}
