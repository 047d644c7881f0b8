package embedded

import (
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
)

// dedupHook is whom the dispatcher asks about submissions.
func (e *Engine) dedupHook() dispatcher.DedupConfig {
	h := e.cfg.DedupHook
	c := dispatcher.DedupConfig{Hook: e.o.DedupHook, Candidates: h.Candidates, KeySeparator: h.KeySeparator, Timeout: h.Timeout, Fallback: h.Fallback}
	if c.Hook == nil && h.Subject != "" {
		c.Hook = &dispatcher.NATSDedupHook{Conn: e.nc, Subject: h.Subject}
	}
	for _, t := range h.Types {
		c.Types = append(c.Types, events.Type(t))
	}
	return c
}
