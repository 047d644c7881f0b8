package embedded

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Tests put by the NATS client's own object store, whose goroutine waits for
	// ever if the put is over before it has begun (nats.go 1.55).
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}
