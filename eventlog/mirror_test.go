package eventlog_test

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// hubAccounts give the mirror m an account of its own, which reaches what a mirror takes of
// the engine's account, and nothing else.
const hubAccounts = `
accounts {
  WORK { jetstream: enabled, users: [ {user: e, password: e} ], exports = [
    { service: "$JS.API.CONSUMER.CREATE.WORK_EVENTS_0", accounts: [WORK_m] }
    { service: "$JS.FC.WORK_EVENTS_0.>", accounts: [WORK_m] }
    { stream: "work.mirror.m.>", accounts: [WORK_m] }
  ] }
  WORK_m { imports = [
    { service: { account: WORK, subject: "$JS.API.CONSUMER.CREATE.WORK_EVENTS_0" }, to: "$JS.work.API.CONSUMER.CREATE.WORK_EVENTS_0" }
    { service: { account: WORK, subject: "$JS.FC.WORK_EVENTS_0.>" } }
    { stream: { account: WORK, subject: "work.mirror.m.>" } }
  ] }
}
leafnodes { listen: "127.0.0.1:-1", authorization { users: [ {user: m, password: t, account: WORK_m} ] } }
`

// A log on a mirror, over a leaf connection, has what its origin has, and takes nothing. Cut
// off from the origin it can still be read.
func TestMirror(t *testing.T) {
	var hubOpts *server.Options
	hub := startServer(t, t.TempDir(), func(o *server.Options) {
		if err := o.ProcessConfigString(hubAccounts); err != nil {
			t.Fatal(err)
		}
		hubOpts = o
	})
	asEngine := nats.UserInfo("e", "e")
	origin := openLog(t, Config{Connect: dialURL("", nats.InProcessServer(hub), asEngine)})
	last := uint64(0)
	for range 50 {
		last = mustAppend(t, origin, last, logtest.Decision(80, "one"))
	}
	remote, err := url.Parse(fmt.Sprintf("nats-leaf://m:t@127.0.0.1:%d", hubOpts.LeafNode.Port))
	if err != nil {
		t.Fatal(err)
	}
	edge := startServer(t, t.TempDir(), func(o *server.Options) {
		o.ServerName, o.JetStreamDomain = "m", "m"
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{remote}}}
	})
	cfg, of := Config{Connect: inProcess(edge)}, Origin{API: "$JS.work.API", Deliver: "work.mirror.m"}
	l, err := OpenMirror(logtest.Context(t), cfg, of)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	arrived := func() {
		t.Helper()
		late := logtest.Context(t).Done()
		for tip := (Tip{}); tip.Seq < last; {
			if tip, err = l.Last(logtest.Context(t)); err != nil {
				t.Fatal(err)
			}
			select {
			case <-late:
				t.Fatalf("the mirror has come to %d of %d", tip.Seq, last)
			case <-time.After(20 * time.Millisecond):
			}
		}
		if got, want := readAll(t, l), readAll(t, origin); !reflect.DeepEqual(got, want) {
			t.Errorf("the mirror has %+v, its origin %+v", got, want)
		}
	}
	arrived()
	last = mustAppend(t, origin, last, logtest.Decision(3, "two"))
	arrived()
	if _, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(1, "x"))); !errors.Is(err, ErrReadOnly) {
		t.Errorf("append: %v", err)
	}
	if _, err := Settle(logtest.Context(t), l, 0, ownedBarrier("x"), ignore); !errors.Is(err, ErrReadOnly) {
		t.Errorf("settle: %v", err)
	}
	if err := l.Purge(logtest.Context(t), 2); !errors.Is(err, ErrReadOnly) {
		t.Errorf("purge: %v", err)
	}
	for _, other := range []Origin{{API: "$JS.other.API", Deliver: "work.mirror.m"}, {Stream: "OTHER"}} {
		if _, err := OpenMirror(logtest.Context(t), cfg, other); err == nil || !strings.Contains(err.Error(), "follows another log") {
			t.Errorf("a mirror of %+v: %v", other, err)
		}
	}
	if _, err := OpenMirror(logtest.Context(t), Config{Connect: dialURL("", nats.InProcessServer(hub), asEngine)}, of); err == nil || !strings.Contains(err.Error(), "there is an event log") {
		t.Errorf("over the origin: %v", err)
	}
	if _, err := Open(logtest.Context(t), cfg); err == nil || !strings.Contains(err.Error(), "mirror or sources") {
		t.Errorf("a mirror, opened as a log: %v", err)
	}
	want := readAll(t, origin)
	hub.Shutdown()
	if got := readAll(t, l); !reflect.DeepEqual(got, want) {
		t.Errorf("cut off, the mirror has %+v, not %+v", got, want)
	}
}

// A mirror may lack frames that its origin cut before they were copied: the frame behind
// them says so if the mirror is one with Gaps, and is corruption otherwise.
func TestMirrorWithGaps(t *testing.T) {
	s := startServer(t, t.TempDir(), nil)
	origin := openLog(t, Config{Connect: inProcess(s)})
	last := uint64(0)
	for range 6 {
		last = mustAppend(t, origin, last, logtest.Decision(3, "one"))
	}
	cfg := Config{Connect: inProcess(s), Names: wire.WithPrefix("copy"), Gaps: true}
	l, err := OpenMirror(logtest.Context(t), cfg, Origin{Stream: wire.Default.EventStream(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	js, err := l.JS()
	if err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "the mirror is there", func() bool {
		tip, err := l.Last(logtest.Context(t))
		return err == nil && tip.Seq == last
	})
	stream, err := js.Stream(logtest.Context(t), cfg.Names.EventStream(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{3, 4} {
		if err := stream.DeleteMsg(logtest.Context(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	read := func(l Log) (seqs, lost []uint64, err error) {
		err = l.Read(logtest.Context(t), 1, last, func(f Frame) error {
			if seqs = append(seqs, f.Seq); f.Lost {
				lost = append(lost, f.Seq)
			}
			return nil
		})
		return seqs, lost, err
	}
	if seqs, lost, err := read(l); err != nil || !slices.Equal(seqs, []uint64{1, 2, 5, 6}) || !slices.Equal(lost, []uint64{5}) {
		t.Errorf("frames %v, behind a gap %v, %v", seqs, lost, err)
	}
	cfg.Gaps = false
	strict, err := OpenMirror(logtest.Context(t), cfg, Origin{Stream: wire.Default.EventStream(0)})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if _, _, err := read(strict); !errors.Is(err, events.ErrCorrupt) {
		t.Errorf("without Gaps: %v", err)
	}
}
