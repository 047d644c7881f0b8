package pagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// declined is how many items of seedTrouble die of the one cause that grows.
const declined = 12

// trouble is what an operator has to look after, by what it is.
type trouble struct {
	declined []string // dead items of charge, of one cause
	bounced  string   // a dead item of email, of another
	running  string   // an item that media-1 runs until it may go on
}

// withFile has engine.toml make settings of the type email, and a schedule.
func withFile(o *embedded.Options) {
	o.Config = config.Config{
		Types: map[events.Type]config.Type{
			"email": {Patch: config.Patch{"capacity": 12, "lease": 45 * time.Second}},
			"fetch": {Patch: config.Patch{"circuit.consecutive": 3, "circuit.cooldown": 10 * time.Minute}},
		},
		Schedules: map[string]config.Schedule{"rollup": {Type: "rollup", Every: time.Hour}},
	}
}

// charge dies unless its params say that it is fixed.
func charge(_ context.Context, it *workers.RawItem) (any, error) {
	if bytes.Contains(it.Raw, []byte(`"fixed"`)) {
		return map[string]bool{"charged": true}, nil
	}
	return nil, workers.WithCode(workers.Permanent(fmt.Errorf("card 4000-0000-0000-%04d was declined by the bank: insufficient funds", len(it.Raw))), "card_declined")
}

// seedTrouble fills an engine of withFile with what the screens of operators
// show.
func (w *world) seedTrouble() (s trouble) {
	w.t.Helper()
	all := w.handlers()
	all["charge"] = charge
	all["email"] = func(_ context.Context, it *workers.RawItem) (any, error) {
		if !bytes.Contains(it.Raw, []byte("nobody")) {
			return "sent", nil
		}
		return nil, workers.WithCode(workers.Permanent(errors.New(`550 5.1.1 "nobody@example.org": no such mailbox here`)), "mailbox_unknown")
	}
	all["fetch"] = func(context.Context, *workers.RawItem) (any, error) {
		return nil, workers.RetryAfter(workers.WithCode(errors.New("dial tcp 192.0.2.7:443: connection refused"), "network"), time.Hour)
	}
	w.worker("mailer-1", 4, pick(all, "email", "charge", "fetch"))
	w.worker("media-1", 3, pick(all, "transcode"))
	s.running = w.submit(streamwright.Item{Type: "transcode", Params: map[string]any{"file": "talk.mov"}})
	for i := range declined {
		s.declined = append(s.declined, w.submit(streamwright.Item{Type: "charge", Params: map[string]any{"order": 100 + i}, Tenant: "acme"}))
	}
	s.bounced = w.submit(streamwright.Item{Type: "email", Params: map[string]string{"to": "nobody@example.org"}})
	for range 3 {
		w.awaitThat(w.submit(itemOf("fetch")), "failed once", func(it streamwright.WorkItem) bool { return it.Attempt == 1 && it.State == events.StateQueued })
	}
	for _, id := range append(s.declined, s.bounced) {
		w.await(id, events.StateDead)
	}
	w.awaitThat(s.running, "running with progress", func(it streamwright.WorkItem) bool { return it.Progress != nil })
	if _, err := w.client.Schedules().Set(w.ctx, streamwright.Schedule{Name: "nightly", Type: "report", Cron: "0 3 * * *", Zone: "Europe/Berlin", Params: json.RawMessage(`{"full":true}`)}); err != nil {
		w.t.Fatal(err)
	}
	w.publish("email", []byte(`{to: kelly}`), nats.Header{"Work-Tenant": {"acme"}})
	w.publish("email", []byte{0, 1, 2, 0xff, 'a', 'b'}, nil)
	return s
}

// publish sends a plain publish, and waits until the engine has rejected it.
func (w *world) publish(typ string, body []byte, header nats.Header) {
	w.t.Helper()
	nc, err := w.engine.Connect()
	if err != nil {
		w.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	before := len(w.rejected())
	if _, err := js.PublishMsg(w.ctx, &nats.Msg{Subject: "work.submit." + typ, Header: header, Data: body}); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	done := errors.New("it is there")
	err = w.client.Tail(ctx, streamwright.TailOptions{FromSeq: 1, Kinds: []streamwright.Kind{streamwright.KindRejected}}, func(ev streamwright.Event) error {
		w.client.ObservePosition(wire.PositionOf(ev.Seq)) // what is read next has it
		if len(w.rejected()) > before {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.t.Fatalf("the publish was not rejected: %v", err)
	}
}

func (w *world) rejected() []streamwright.Rejected {
	w.t.Helper()
	page, err := w.client.Rejected().List(w.ctx, streamwright.RejectedFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Rejected
}

// typeOf is what the engine says of a type.
func (w *world) typeOf(name string) streamwright.TypeInfo {
	w.t.Helper()
	all, err := w.client.Types().List(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range all {
		if t.Type == name {
			return t
		}
	}
	w.t.Fatalf("there is no type %s", name)
	return streamwright.TypeInfo{}
}

// until waits until something is so in the engine, which the page has been told
// to do.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	w.within(patience, what, ok)
}

// within is until with a patience of its own.
func (w *world) within(d time.Duration, what string, ok func() bool) {
	w.t.Helper()
	end := time.Now().Add(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(end) {
			w.t.Fatalf("this never came: %s", what)
		}
		<-tick.C
	}
}

// mail has emails sent for a while, in waves, so that the charts have something
// to show.
func (w *world) mail(d time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < d; {
		wave := math.Sin(time.Since(began).Seconds() / d.Seconds() * 3 * math.Pi)
		for range int(12 + 11*wave) {
			w.submit(streamwright.Item{Type: "email", Params: map[string]string{"to": "all@example.org"}})
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-w.ctx.Done():
		}
	}
}

// beats registers a worker that offers nothing, sends heartbeats until silence is called,
// and is never heard of again.
func (w *world) beats(id string) (silence func()) {
	w.t.Helper()
	nc, err := w.engine.Connect()
	if err != nil {
		w.t.Fatal(err)
	}
	reg := wire.Register{Worker: id, Session: "s-" + id, Types: []string{"email"}, Slots: 2, Offers: true, Host: "host-b", Version: "1.4.1"}
	ask := func(ctx context.Context, endpoint string, body any) ([]byte, error) {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		m, err := nc.RequestWithContext(ctx, "work.api."+endpoint, data)
		if err != nil {
			return nil, err
		}
		return m.Data, nil
	}
	var registered wire.Registered
	data, err := ask(w.ctx, wire.APIRegister, reg)
	if err == nil {
		err = json.Unmarshal(data, &registered)
	}
	if err != nil || registered.Session != reg.Session {
		w.t.Fatalf("registered: %s (%v)", data, err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := ask(ctx, wire.APIHeartbeat, wire.Heartbeat{Register: reg}); err != nil && ctx.Err() == nil {
				w.t.Errorf("heartbeat: %v", err)
				return
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	silence = sync.OnceFunc(func() {
		cancel()
		<-done
		nc.Close()
	})
	w.t.Cleanup(silence)
	return silence
}
