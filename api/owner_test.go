package api

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/wire"
)

// Somebody who is still subscribed as an owner, but answers nothing, takes no
// request from the one who does: an engine that is cut off looks like that to the
// NATS server for minutes.
func TestASilentOwnerTakesNoRequest(t *testing.T) {
	r := newRig(t, nil)
	if err := r.svc.Serve(true); err != nil {
		t.Fatal(err)
	}
	silent := r.connect()
	defer silent.Close()
	if _, err := silent.QueueSubscribe(wire.Default.API(wire.APISubmit), "q", func(*nats.Msg) {}); err != nil { // the group of micro services
		t.Fatal(err)
	}
	if err := silent.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r.submit(wire.Submit{Type: "email"})
	}
}
