package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// killInRound asks for a cut of the log, and kills the engine once the round has
// come as far as a number of its events that match.
func (s *served) killInRound(subject, holding string, n int) {
	s.t.Helper()
	sub := must(s.nc.SubscribeSync(subject))(s.t)
	must(s.c.Engine().Cut(s.ctx))(s.t)
	for n > 0 {
		m := must(sub.NextMsgWithContext(s.ctx))(s.t)
		if contains(string(m.Data), holding) {
			n--
		}
	}
	s.again()
}

// again kills the engine and starts it again.
func (s *served) again() {
	s.t.Helper()
	s.p.kill()
	s.p.ended()
	s.c.Close()
	s.nc.Close()
	s.ctx = testContext(s.t) // each life has its time
	s.begin()
	s.connect()
}

// kept is what must be the same before and after.
func (s *served) kept() (all []any) {
	s.t.Helper()
	page := must(s.c.Rejected().List(s.ctx, streamwright.RejectedFilter{}))(s.t)
	for _, r := range page.Rejected {
		all = append(all, must(s.c.Rejected().Get(s.ctx, r.Seq))(s.t))
	}
	n := 0
	for it, err := range s.c.All(s.ctx, streamwright.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		if n++; it.State != events.StateQueued {
			s.t.Fatalf("item %s is %s", it.ID, it.State)
		}
	}
	for _, info := range must(s.c.Types().List(s.ctx))(s.t) {
		all = append(all, info.Type, info.Paused)
	}
	return append(all, n, must(s.c.Workers().Drains(s.ctx))(s.t))
}

// An engine that is killed in any part of a cut of the log, time and again, has
// lost nothing, nor has one whose store is deleted after that.
func TestKilledInTheMidstOfACut(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	items := make([]streamwright.Item, 300)
	for i := range items {
		items[i] = streamwright.Item{Type: "later", Params: map[string]int{"n": i}}
	}
	must(s.c.SubmitMany(s.ctx, items))(t)
	for i := range 20 {
		must(s.js.PublishMsg(s.ctx, &nats.Msg{Subject: "work.submit.later", Data: fmt.Appendf(nil, "{not json %d", i)}))(t)
	}
	eventually(t, "all is rejected", func() bool {
		return len(must(s.c.Rejected().List(s.ctx, streamwright.RejectedFilter{}))(t).Rejected) == 20
	})
	must(s.c.Types().Pause(s.ctx, "later", streamwright.PauseOptions{Reason: "maintenance", For: time.Hour}))(t)
	w := begin(t, s.url(), "work", "other", "--id", "w1", "--", "cat")
	eventually(t, "the worker is there", func() bool { return len(must(s.c.Workers().List(s.ctx))(t)) == 1 })
	w.kill() // it says no goodbye, so it stays marked
	w.ended()
	if err := s.c.Workers().Drain(s.ctx, "w1"); err != nil {
		t.Fatal(err)
	}
	before := s.kept()
	if len(before) != 20+2*2+2 {
		t.Fatalf("%d things are kept: %v", len(before), before)
	}
	const firstPosition = "4096" // of a log that was never cut
	const snapshots, carried = "work.event.*.*.snapshot", "work.event.*.later.carried"
	for _, at := range []struct {
		subject, holding string
		n                int
	}{{snapshots, `"begin"`, 1}, {carried, "", 1}, {carried, "", 200}, {snapshots, `"mark":"rejected"`, 1}, {snapshots, `"end"`, 1}} {
		s.killInRound(at.subject, at.holding, at.n)
		s.verify()
		if after := s.kept(); !reflect.DeepEqual(before, after) {
			t.Fatalf("killed at %s %s %d: kept was\n%+v\nis\n%+v", at.subject, at.holding, at.n, before, after)
		}
	}
	eventually(t, "the log is cut", func() bool {
		r := must(s.c.Engine().Info(s.ctx))(t).Retention
		if r == nil || r.Round != "" {
			return false
		}
		if r.LogFirst == firstPosition { // the kill came before the end was stored, so that there was no round
			must(s.c.Engine().Cut(s.ctx))(t)
		}
		return r.LogFirst != firstPosition
	})
	s.verify()
	s.p.kill()
	s.p.ended()
	if err := os.RemoveAll(filepath.Join(s.dir, "store")); err != nil {
		t.Fatal(err)
	}
	s.again()
	s.verify()
	if after := s.kept(); !reflect.DeepEqual(before, after) {
		t.Fatalf("without the store: kept was\n%+v\nis\n%+v", before, after)
	}
}
