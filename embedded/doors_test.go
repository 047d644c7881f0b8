package embedded

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/internal/doors"
	"github.com/streamwright/streamwright/wire"
)

// No message that a user sends reaches a subject of the engine's account that is
// not its role's: not as a reply, nor by what the server makes of it.
func TestNoDoorIsOpen(t *testing.T) {
	slow(t)
	t.Parallel()
	doors.Try(t, func(t *testing.T) doors.Server {
		e := guarded(t)
		submit(t, e, wire.Submit{Type: "email"})
		spy, err := e.connect(true)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(spy.Close)
		return doors.Server{Names: wire.Default, Spy: spy, Dial: func(t *testing.T, r access.Role) *nats.Conn {
			nc, err := nats.Connect(e.URL(), nats.UserInfo(r.String(), testPassword), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return nc
		}}
	})
}
