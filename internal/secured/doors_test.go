package secured

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/internal/doors"
	"github.com/streamwright/streamwright/wire"
)

// On a server that is set up as the docs say, no message that a user sends
// reaches a subject of the engine's account that is not its role's.
func TestNoDoorIsOpen(t *testing.T) {
	t.Parallel()
	doors.Try(t, func(t *testing.T) doors.Server {
		hash := hashed(t)
		text := accounts(t, func(user string) []string { return []string{"--password-file", user + "=" + hash} })
		text = strings.Replace(text, "users = [", "users = [ { user: spy, password: spy },", 1) // in the engine's account
		url := natsServer(t, "jetstream { store_dir: STORE }\n"+text).ClientURL()
		server := login{[]string{"--user", "engine"}, []string{"NATS_PASSWORD=" + password}}.begin(t, "engine", "serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir())
		server.says("engine ready")
		dial := func(t *testing.T, user, password string) *nats.Conn {
			nc, err := nats.Connect(url, nats.UserInfo(user, password), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
			nc = must(t, nc, err)
			t.Cleanup(nc.Close)
			return nc
		}
		return doors.Server{Names: wire.Default, Spy: dial(t, "spy", "spy"), Dial: func(t *testing.T, r access.Role) *nats.Conn {
			return dial(t, r.String(), password)
		}}
	})
}

// A server that takes requests with fields that it does not know takes a PubAck
// for a request to purge: the engine refuses to start there.
func TestNotStrict(t *testing.T) {
	url := natsServer(t, "jetstream { store_dir: STORE, strict: false }\n").ClientURL()
	login{}.run(t, "serve", "--nats-url", url, "--http", "off", "--dir", t.TempDir()).wants(t, 1, "strict", "bad_config")
}
