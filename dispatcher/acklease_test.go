package dispatcher

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// The server is started again while an ack worker has a message, which was
// delivered late in a second: the lease does not end early.
func TestAckLeaseOutlastsARestart(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, nil)
	set := events.DefaultTypeSettings()
	set.Protocol, set.Lease = events.ProtocolAck, events.Millis(3000)
	h.do(core.Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	id := h.submit("email")
	h.until("the consumer is there", func() bool { _, err := h.js.Consumer(h.ctx(), "WORK_DISPATCH", "email"); return err == nil })
	h.until("it is late in a second", func() bool { return time.Now().Nanosecond() > 800_000_000 })
	var at time.Time // no later than the delivery
	h.until("it is delivered", func() bool {
		c, err := h.js.Consumer(h.ctx(), "WORK_DISPATCH", "email")
		if at = time.Now(); err == nil {
			_, err = c.Next(jetstream.FetchMaxWait(time.Second))
		}
		return err == nil
	})
	h.stopEngine()
	h.nc.Close()
	h.srv.Shutdown()
	h.srv.WaitForShutdown()
	h.startServer()
	h.startEngine()
	h.until("the lease has ended", func() bool {
		it, err := h.store.Item(id)
		return err == nil && it.Error != ""
	})
	if took := time.Since(at); took < 3*time.Second {
		t.Fatalf("the lease of 3s ended after %s", took)
	}
}
