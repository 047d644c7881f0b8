package embedded

import (
	"github.com/streamwright/streamwright/api/live"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events/core"
)

// newLive makes the live feed, which HTTP alone serves.
func (e *Engine) newLive() (err error) {
	if e.cfg.Server.HTTP == config.Off {
		return nil
	}
	e.live, err = live.New(live.Config{Engine: e.service, Logger: e.log.With("part", "live")})
	return err
}

// liveProjected tells the live feed, if there is one, what was projected.
func (e *Engine) liveProjected(c *core.Changes) {
	if e.live != nil {
		e.live.Projected(c)
	}
}

// liveTouched tells the live feed, if there is one, that the workers have changed.
func (e *Engine) liveTouched() {
	if e.live != nil {
		e.live.Touch()
	}
}
