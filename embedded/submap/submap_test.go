package submap

import (
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 30 * time.Second

// What is published to a mapped subject is delivered to another, until the mapping ends.
func TestMap(t *testing.T) {
	s := natscluster.Alone(t, 0)
	server := func() *natsserver.Server { return s }
	a := New(server, natsserver.DEFAULT_GLOBAL_ACCOUNT)
	arrives := func(want string) {
		t.Helper()
		nc, err := nats.Connect("", nats.InProcessServer(s)) // mappings are looked at when a client connects
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		sub, err := nc.SubscribeSync(">")
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish("in.email", nil); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.NextMsg(patience); err != nil || m.Subject != want {
			t.Fatalf("%+v, %v, want %s", m, err, want)
		}
	}
	arrives("in.email")
	for _, to := range []string{"one", "two"} {
		if err := a.Map("in.*", to+".{{wildcard(1)}}"); err != nil {
			t.Fatal(err)
		}
		arrives(to + ".email")
	}
	a.Unmap("in.*")
	arrives("in.email")
	a.Unmap("in.*") // nothing happens
	if err := a.Map("in.*", "out..x"); err == nil {
		t.Error("an invalid subject is mapped to")
	}
	none := New(server, "NONE")
	if err := none.Map("in.*", "out.*"); err == nil {
		t.Error("an account that is not there has a mapping")
	}
	none.Unmap("in.*")
}
