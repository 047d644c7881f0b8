package dispatcher

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/wire"
)

// A gap in what a consumer brings of the intake is one of the replica's that it reads, unless the
// stream's leader has nothing there either.
func TestIntakeWhole(t *testing.T) {
	h := newHarness(t, nil)
	names := wire.WithPrefix("other")
	topo := natsio.NewTopology(natsio.Config{Conn: h.nc, JS: h.js, Names: names, Logger: h.eng.cfg.Logger})
	s, err := h.js.CreateStream(h.ctx(), jetstream.StreamConfig{Name: names.IntakeStream(), Subjects: []string{names.Intake(0, "*")}})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := h.js.Publish(h.ctx(), names.Intake(0, "email"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := topo.IntakeWhole(h.ctx(), 1, 4); !errors.Is(err, connect.ErrFeedLost) {
		t.Errorf("messages that the leader has are passed over: %v", err)
	}
	for _, seq := range []uint64{2, 3, 4} {
		if err := s.DeleteMsg(h.ctx(), seq); err != nil {
			t.Fatal(err)
		}
		if found := max(seq+1, 4); seq >= 3 {
			if err := topo.IntakeWhole(h.ctx(), 1, found); err != nil {
				t.Errorf("deleted up to %d: %v", seq, err)
			}
		}
	}
}
