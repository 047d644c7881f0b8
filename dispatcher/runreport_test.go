package dispatcher

import (
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// A worker that reports on a run which was cancelled is told just that, in case it has not
// heard of it yet.
func TestARefusedReportTellsOfACancel(t *testing.T) {
	s := newSim(t, nil)
	s.register("w", 2, nil, "email")
	s.submit(core.Submit{})
	m := s.take("email")
	s.begin(m)
	progress := m.report(wire.ReportProgress)
	s.do(core.Cancel{ID: m.id})
	if got := s.report(progress)[0]; got.Error == nil || got.State != events.StateCancelled {
		t.Errorf("the run was cancelled: %+v", got)
	}
	progress.Token = events.Token(1).String()
	if got := s.report(progress)[0]; got.Error == nil || got.State != events.StateNone {
		t.Errorf("a run that never was: %+v", got)
	}
}
