package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// The worker prints what the engine answers, not what the handler returned.
func TestWorkPrintsTheEnginesAnswer(t *testing.T) {
	for want, s := range map[string]workers.Settled{
		"completed": {Event: wire.ReportComplete},
		"not recorded      0s  the item is another run's":               {Event: wire.ReportComplete, Err: events.Refuse(events.CodeStaleToken, "the item is another run's")},
		"not recorded      0s  " + workers.ErrLeaseLost.Error():         {Event: wire.ReportComplete, Err: workers.ErrLeaseLost},
		"failed         0s  too_large: the result has 9 bytes too many": {Event: wire.ReportFail, Error: "too_large: the result has 9 bytes too many"},
	} {
		var out bytes.Buffer
		p := runPrinter{a: &app{App: console.App{Out: &out}}, ended: map[runKey]ranItem{}}
		item := &workers.RawItem{ID: events.ID{1}, Attempt: 2}
		h := p.middleware(func(context.Context, *workers.RawItem) (any, error) { return "ok", nil })
		if _, err := h(t.Context(), item); err != nil || out.Len() > 0 {
			t.Errorf("before the engine has answered: %v, %s", err, &out)
		}
		s.ID, s.Attempt = item.ID, item.Attempt
		p.settled(s)
		if !strings.Contains(out.String(), want) || s.Err != nil && strings.Contains(out.String(), "completed") || len(p.ended) > 0 {
			t.Errorf("got %s, want %s", &out, want)
		}
	}
}
