package embedded

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
)

// A program that knows nothing of the engine works, with a client's permissions;
// what it has when the whole process ends is there when it is back, lease and
// all, and so is what it has answered.
func TestAckWorkersOverARestart(t *testing.T) {
	t.Parallel()
	o := quiet(t.TempDir())
	o.Config = config.Default()
	o.Config.Types = map[events.Type]config.Type{"thumbnail": {Patch: config.Patch{"protocol": events.ProtocolAck}}}
	first, client, worker := startAck(t, o)
	submit := func(c *streamwright.Client) string {
		t.Helper()
		r, err := c.Submit(testContext(t), streamwright.Item{Type: "thumbnail", Params: map[string]int{"n": 1}})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	next := func(c jetstream.Consumer) jetstream.Msg {
		t.Helper()
		m, err := c.Next(jetstream.FetchMaxWait(testTimeout))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	done, answered, held := submit(client), submit(client), submit(client)
	if err := next(worker).Ack(); err != nil {
		t.Fatal(err)
	}
	if it, err := client.Wait(testContext(t), done); err != nil || it.State != events.StateCompleted || it.Worker != "ack:thumbnail" {
		t.Fatalf("%+v, %v", it, err)
	}
	m := next(worker)
	if err := m.DoubleAck(testContext(t)); err != nil {
		t.Fatal(err)
	}
	reply := next(worker).Reply()
	if err := first.Stop(testContext(t)); err != nil {
		t.Fatal(err)
	}
	second, client, _ := startAck(t, o)
	if it, err := client.Wait(testContext(t), answered); err != nil || it.State != events.StateCompleted || it.Attempt != 1 {
		t.Fatalf("what was answered before: %+v, %v", it, err)
	}
	nc, err := second.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish(reply, []byte("+ACK")); err != nil {
		t.Fatal(err)
	}
	if it, err := client.Wait(testContext(t), held); err != nil || it.State != events.StateCompleted || it.Attempt != 1 {
		t.Fatalf("what was held over the restart: %+v, %v", it, err)
	}
}

func startAck(t *testing.T, o Options) (*Engine, *streamwright.Client, jetstream.Consumer) {
	t.Helper()
	e := mustStart(t, o)
	c := mustClient(t, e)
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := connect.JetStream(nc, e.clientNames())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(5 * time.Millisecond) {
		cons, err := js.Consumer(testContext(t), "WORK_DISPATCH", "thumbnail")
		if err == nil {
			return e, c, cons
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
