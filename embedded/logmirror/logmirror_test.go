package logmirror

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const (
	patience = 30 * time.Second
	site     = "south"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func dial(t *testing.T) *nats.Conn {
	t.Helper()
	s := natscluster.Alone(t, 0)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// filled returns a log with five frames, of which the first two are cut off.
func filled(t *testing.T) *logtest.Memory {
	t.Helper()
	stream := logtest.NewMemoryStream(0)
	stream.Now = func() time.Time { return noon }
	log := stream.Open()
	for i := range uint64(5) {
		ev := events.Event{Kind: events.KindOwned, At: noon, Body: &events.Owned{Epoch: events.Epoch(i + 1), Owner: "me"}}
		if _, err := log.Append(t.Context(), i, &eventlog.Write{Epoch: events.Epoch(i + 1), Node: "me", Before: i, Events: []events.Event{ev}}); err != nil {
			t.Fatal(err)
		}
	}
	stream.Trim(3)
	return log
}

// hub serves a site from a log; owns may be changed.
func hub(t *testing.T, nc *nats.Conn, log eventlog.Log, owns *atomic.Bool) *Hub {
	t.Helper()
	h, err := Serve(HubConfig{Conn: nc, Names: wire.Default, Site: site, Owns: owns.Load, Log: log, Heard: func(at, end events.Seq) {}, Logger: slog.New(slog.DiscardHandler),
		Call: func(_ context.Context, endpoint string, body []byte) ([]byte, error) {
			if string(body) == `"fail"` {
				return nil, events.Refuse(events.CodeNotFound, "there is nothing of the kind")
			}
			return json.Marshal(endpoint)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return h
}

func link(t *testing.T, nc *nats.Conn, edit func(*LinkConfig)) *Link {
	t.Helper()
	c := LinkConfig{Conn: nc, Names: wire.Default, Site: site, Hub: "hub.example:7422", Dir: "/data", Position: func() events.Seq { return 7 }, Answered: func() {},
		Why: func(error) string { return "nobody knows why" }, LogsAnew: func(context.Context) error { return nil }, Logger: slog.New(slog.DiscardHandler)}
	if edit != nil {
		edit(&c)
	}
	l := NewLink(c)
	t.Cleanup(func() { l.Stop(); l.Wait() })
	return l
}

func owning() *atomic.Bool {
	var owns atomic.Bool
	owns.Store(true)
	return &owns
}

// A mirror is answered what the owner says to what changes nothing, and that alone.
func TestAsk(t *testing.T) {
	nc := dial(t)
	owns := owning()
	hub(t, nc, filled(t), owns)
	l := link(t, nc, nil)
	if reply, err := l.Ask(wire.APIGet, []byte(`{}`)); err != nil || string(reply) != `"`+wire.APIGet+`"` {
		t.Errorf("%s, %v", reply, err)
	}
	if _, err := l.Ask(wire.APIGet, []byte(`"fail"`)); events.CodeOf(err) != events.CodeNotFound {
		t.Errorf("what the owner refuses: %v", err)
	}
	for _, endpoint := range []string{wire.APISubmit, wire.APICancel, "nonsense"} {
		if _, err := l.Ask(endpoint, []byte(`{}`)); events.CodeOf(err) != events.CodeForbidden {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	for _, e := range wire.Endpoints() {
		if e.ReadOnly && !e.Stream {
			continue
		}
		if _, err := l.Ask(e.Name, nil); events.CodeOf(err) != events.CodeForbidden {
			t.Errorf("%s, which is not for mirrors: %v", e.Name, err)
		}
	}
	// Once the log is another's, nobody answers.
	owns.Store(false)
	done := make(chan error, 1)
	go func() { _, err := l.Ask(wire.APIGet, nil); done <- err }()
	l.Stop() // does not wait for an answer
	err := <-done
	if events.CodeOf(err) != events.CodeUnavailable || !strings.Contains(err.Error(), "hub.example:7422 (nobody knows why)") {
		t.Errorf("no hub: %v", err)
	}
}

// Look tells the hub's end, and has the copy cut where the hub's log is, once it is that log
// which is copied.
func TestLook(t *testing.T) {
	nc := dial(t)
	log := filled(t)
	tip, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := hub(t, nc, log, owning())
	var cuts []uint64
	answered := 0
	l := link(t, nc, func(c *LinkConfig) {
		c.Cut = func(_ context.Context, first uint64) error { cuts = append(cuts, first); return nil }
		c.Answered = func() { answered++ }
	})
	want := eventlog.End{Tip: eventlog.Tip{Seq: 5, First: 3, Time: tip.Time, Created: tip.Created}, Last: events.SeqOf(5, 0)}
	for range 2 {
		end, err := l.Look(true)
		if err != nil || end.Seq != want.Seq || end.First != want.First || end.Last != want.Last || !end.Created.Equal(want.Created) || !end.Time.Equal(want.Time) {
			t.Fatalf("%+v, %v, want %+v", end, err, want)
		}
	}
	if len(cuts) != 0 || answered != 2 {
		t.Fatalf("cuts %v of what is not known to be a copy, %d answers", cuts, answered)
	}
	_ = l.note(nil, tip.Created.Add(1))
	if _, err := l.Look(true); err != nil || len(cuts) != 0 {
		t.Fatalf("cuts %v of the copy of another log, %v", cuts, err)
	}
	_ = l.note(nil, tip.Created)
	if _, err := l.Look(true); err != nil || len(cuts) != 1 || cuts[0] != 3 || !l.Copies().Equal(tip.Created) {
		t.Fatalf("cuts %v, %v", cuts, err)
	}
	h.Stop()
	l.looked = time.Now().Add(time.Hour) // just now, however slow the machine is
	if end, err := l.Look(false); err != nil || end.Seq != 5 {
		t.Fatalf("it has just been asked: %+v, %v", end, err)
	}
	if end, err := l.Look(true); events.CodeOf(err) != events.CodeUnavailable || end.Seq != 5 || l.cut.IsZero() {
		t.Fatalf("the hub is silent: %+v, %v", end, err)
	}
	hub(t, nc, log, owning())
	if _, err := l.Look(true); err != nil || !l.cut.IsZero() {
		t.Fatalf("it answers again: %v", err)
	}
}

// A log that is not the one that was copied is told, and not copied.
func TestDiffers(t *testing.T) {
	nc := dial(t)
	log := filled(t)
	h := hub(t, nc, log, owning())
	sum, err := log.Checksum(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	tip, err := log.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ask  mirrorAsk
		want bool
	}{
		"nothing copied":  {mirrorAsk{}, false},
		"from the first":  {mirrorAsk{From: 1}, false},
		"goes on":         {mirrorAsk{From: 5, Checksum: sum}, false},
		"another frame":   {mirrorAsk{From: 5, Checksum: sum + 1}, true},
		"a frame behind":  {mirrorAsk{From: 7, Checksum: sum}, true},
		"cut off":         {mirrorAsk{From: 3, Checksum: 1}, false},
		"the first there": {mirrorAsk{From: 4, Checksum: 1}, true},
	} {
		if got, err := h.differs(t.Context(), &c.ask, tip); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		cut  bool
		last uint64
		says []string
	}{
		"ends before":      {true, 7, []string{"ends with frame 5, and this mirror has frame 7", "remove /data"}},
		"another":          {true, 4, []string{"frame 4 of the hub's log is not the one", "remove /data"}},
		"of what is kept":  {false, 4, []string{"frame 4 of the hub's log is not the one", "keep /data as the archive"}},
		"ends before that": {false, 7, []string{"ends with frame 5", "keep /data as the archive"}},
	} {
		l := link(t, nc, func(lc *LinkConfig) {
			if c.cut {
				lc.Cut = func(context.Context, uint64) error { return nil }
			}
		})
		err := l.note(l.differ(c.last, &mirrorAnswer{Last: 5}), time.Time{})
		for _, s := range c.says {
			if events.CodeOf(err) != events.CodeLogLost || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v, want %q", name, err, s)
			}
		}
		if _, got := l.Look(true); got == nil || got.Error() != err.Error() {
			t.Errorf("%s: a look gives %v", name, got)
		}
	}
}

// A mirror's server is given a consumer of the hub's stream, with a subject of its own, in
// place of the one before; and none of what is not for mirrors.
func TestFeed(t *testing.T) {
	nc := dial(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	names := wire.Default
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: names.EventStream(0), Subjects: []string{"log"}})
	if err != nil {
		t.Fatal(err)
	}
	hub(t, nc, filled(t), owning())
	l := link(t, nc, nil)
	var before string
	for range 2 {
		info, err := l.openFeed(names.EventStream(0), []byte(`{"config":{"opt_start_seq":1}}`))
		if err != nil || !strings.HasPrefix(info.Config.DeliverSubject, names.MirrorFeed(site)+".") || info.Name == before || info.Config.OptStartSeq != 1 {
			t.Fatalf("%+v, %v", info, err)
		}
		var all []string
		for name := range stream.ConsumerNames(t.Context()).Name() {
			all = append(all, name)
		}
		if before = info.Name; len(all) != 1 || all[0] != before {
			t.Fatalf("the consumers %v are there, want %s", all, before)
		}
	}
	if l.Copies().IsZero() {
		t.Error("it is not known which log is copied")
	}
	for _, name := range []string{names.IntakeStream(), "OTHER"} {
		if _, err := l.openFeed(name, []byte(`{}`)); events.CodeOf(err) != events.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.openFeed(names.EventStream(0), []byte(`what?`)); err == nil {
		t.Error("a request that can't be read is answered")
	}
}

// The copy of the items' logs is made anew if the hub's ends before.
func TestLogsAreMadeAnew(t *testing.T) {
	nc := dial(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	names := wire.Default
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: names.LogStream(), Subjects: []string{"logs"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "logs", nil); err != nil {
		t.Fatal(err)
	}
	hub(t, nc, filled(t), owning())
	anew := make(chan struct{}, 9)
	l := link(t, nc, func(c *LinkConfig) {
		c.Cut = func(context.Context, uint64) error { return nil }
		c.LogsAnew = func(context.Context) error { anew <- struct{}{}; return errors.New("not now") }
	})
	if info, err := l.openFeed(names.LogStream(), []byte(`{"config":{"opt_start_seq":2}}`)); err != nil || info.Config.OptStartSeq != 2 {
		t.Fatalf("%+v, %v", info, err)
	}
	if _, err := l.openFeed(names.LogStream(), []byte(`{"config":{"opt_start_seq":3}}`)); err == nil {
		t.Fatal("the hub's logs end before what the mirror has, and it copies on")
	}
	<-anew
	l.Wait()
	if len(anew) != 0 || !l.Copies().IsZero() {
		t.Error("they are made anew twice, or count as the log")
	}
	l.LinkConfig.Cut = nil // an archive gives up nothing
	if _, err := l.openFeed(names.LogStream(), []byte(`{"config":{"opt_start_seq":3}}`)); err == nil {
		t.Error("the hub's logs end before what the archive has, and it copies on")
	}
	if l.Wait(); len(anew) != 0 {
		t.Error("an archive makes them anew")
	}
}
