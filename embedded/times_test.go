package embedded

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// Workers are told the heartbeat of engine.toml, or a third of their lease, and
// the silent are dead in its time.
func TestHeartbeatOfTheFile(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, Config: configOf(t, `
[workers]
heartbeat_interval = "500ms"
dead_after = "1s"
[types.quick]
lease = "1s"
`)})
	for _, c := range []struct {
		typ    string
		wantMS int64
	}{{"slow", 500}, {"quick", 333}} {
		reg := request[wire.Registered](t, e, wire.APIRegister, wire.Register{Worker: c.typ, Session: c.typ, Types: []string{c.typ}, Slots: 1})
		if reg.Heartbeat.Milliseconds() != c.wantMS {
			t.Errorf("a worker of type %s is told to send a heartbeat each %d ms, want %d", c.typ, reg.Heartbeat.Milliseconds(), c.wantMS)
		}
		shown(t, e, c.typ, wire.WorkerDead, "nothing was heard of it for 1s")
	}
}

// What is not started in time comes back, with no attempt used.
func TestStartTimeoutOfTheFile(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, Config: configOf(t, `
[workers]
start_timeout = "200ms"
`)})
	nc := workerConn(t, e)
	const session = "one"
	sent, err := nc.SubscribeSync(e.clientNames().RunsOf(session))
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	request[wire.Registered](t, e, wire.APIRegister, wire.Register{Worker: "me", Session: session, Types: []string{"email"}, Slots: 2})
	sub := submit(t, e, wire.Submit{Type: "email", Params: json.RawMessage(`{}`)})
	var items []wire.Assigned
	for len(items) < 2 {
		m, err := sent.NextMsg(testTimeout)
		var list []wire.Assigned
		if err == nil {
			err = json.Unmarshal(m.Data, &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, list...)
	}
	if items[0].ID != sub.ID || items[1].ID != sub.ID || items[0].Token == items[1].Token || items[1].Attempt != 1 {
		t.Errorf("sent %+v", items)
	}
}
