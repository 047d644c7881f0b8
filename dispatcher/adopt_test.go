package dispatcher

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// What a takeover asks the server for does not grow with what is dispatched, or a
// server that is some way off would hold it up for minutes: thousands of spent
// messages cost some requests, and a run among them keeps its own.
func TestTakeoverAsksLittle(t *testing.T) {
	slow(t)
	t.Parallel()
	const spent, most = 5000, 120
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprint(running), func(t *testing.T) {
			h := newHarness(t, nil)
			h.register("w", 1, "email")
			if running {
				h.submit("email")
				m := h.pull("email")
				if r := h.claim(m, "w"); !r.OK {
					t.Fatalf("%+v", r)
				}
			}
			h.stopEngine()
			for i := range spent {
				m := nats.NewMsg("work.lane.email")
				m.Header.Set(wire.HeaderID, h.eng.NewID().String())
				m.Header.Set(wire.HeaderToken, fmt.Sprintf("%016x", i+1))
				if _, err := h.js.PublishMsgAsync(m, jetstream.WithStallWait(patience)); err != nil {
					t.Fatal(err)
				}
			}
			<-h.js.PublishAsyncComplete()
			s, err := h.js.Stream(h.ctx(), "WORK_DISPATCH")
			if err != nil || s.CachedInfo().State.Msgs < spent {
				t.Fatal(err, s)
			}
			before := h.nc.Stats().OutMsgs
			h.startEngine()
			asked := h.nc.Stats().OutMsgs - before
			info, err := s.Info(h.ctx())
			if err != nil || info.State.Msgs > 1 {
				t.Fatalf("%+v %v", info, err)
			}
			if t.Logf("%d requests", asked); running {
				if info.State.Msgs != 1 {
					t.Fatal("the message of the run is gone")
				}
				asked -= spent // one delete each, many at once
			}
			if asked > most {
				t.Fatalf("%d requests", asked)
			}
		})
	}
}
