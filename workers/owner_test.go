package workers_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/faultproxy"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// What an owner was asked, and can't answer any more, is asked the next one as soon as that
// calls: the report of a start that comes later than that is one too late.
func TestAsksANewOwnerAgain(t *testing.T) {
	t.Parallel()
	r := newOpenRig(t)
	b, log := newBlocker(), new(need.Log)
	w, err := workers.New(dial(t, r.URL), workers.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "wait", b.run)
	r.start(w)
	id := r.submit("wait", `{}`)
	r.Await(wire.APIReport, 1)
	r.Next(wire.APIReport, faultproxy.Drop)
	close(b.release)
	r.Await(wire.APIReport, 2)
	r.publish(wire.Default.ControlAll(), wire.Control{Register: true})
	r.completed(id)
	if got := log.String(); !strings.Contains(got, "another engine has become the owner") { // and not that it had no answer in time
		t.Errorf("the worker says\n%s", got)
	}
	r.Await(wire.APIRegister, 2)
}

// Only the engine's own call on the very subject counts.
func TestCallsOfOthersAreIgnored(t *testing.T) {
	r := newRig(t)
	w := r.work(workers.Config{}, "add", nothing)
	all := wire.Default.ControlAll()
	for _, m := range []*nats.Msg{
		{Subject: all, Data: []byte(`{"register":true}`), Reply: "somewhere"},
		{Subject: all, Data: []byte(`{"register":true}`), Header: nats.Header{"Nats-Stream": {"S"}}},
		{Subject: all, Data: []byte(`{"drain":true}`)},
		{Subject: all, Data: []byte(`what?`)},
	} {
		w.OnCall(m)
		if !w.Stats().Registered {
			t.Errorf("%+v was obeyed", m)
		}
	}
	w.OnCall(&nats.Msg{Subject: all, Data: []byte(`{"register":true}`)})
	r.Await(wire.APIRegister, 2)
}
