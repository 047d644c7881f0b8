package core

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// Any sequence of commands, decided over a projection that lags, is evicted
// and restarted, gives what a plain replay of the log gives, and keeps the
// invariants of check.
func TestAnySequenceOfCommands(t *testing.T) { checkSequences(t, (*sim).step) }

// The same of waits, signals, tokens and questions alone, which the others seldom come to.
func TestAnySequenceOfWaits(t *testing.T) { checkSequences(t, (*sim).waitStep) }

func checkSequences(t *testing.T, step func(*sim)) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			step(s)
		}
		s.doFollowUps()
		s.checkNobodyIsStuck()
		s.settle()
		want := s.base.dump()
		for _, every := range []int{1, 7, 256} {
			if got := s.replay(every, false); got != want {
				t.Fatalf("replayed in batches of %d:\n%s\nlive:\n%s", every, got, want)
			}
		}
		if got := s.replay(3, true); got != want {
			t.Fatalf("replayed with restarts:\n%s\nlive:\n%s", got, want)
		}
		for _, from := range s.cutAt() {
			for _, every := range []int{1, 7, 256} {
				if got := s.replayFrom(from, every, every == 7); got != want {
					t.Fatalf("replayed from the cut at %d, in batches of %d:\n%s\nlive:\n%s", from, every, got, want)
				}
			}
		}
	})
}

// replay folds the log into a new base, frame by frame, so many
// between two writes; with restarts, at random points. It returns the base's
// content.
func (s *sim) replay(every int, restarts bool) string { return s.replayFrom(1, every, restarts) }

// replayFrom is replay of a log that begins with a frame.
func (s *sim) replayFrom(from uint64, every int, restarts bool) string {
	base := newMapBase()
	st := s.open(base)
	frames := 0
	for seq := from; seq <= uint64(len(s.log)); seq++ {
		s.read(st, seq)
		if frames++; frames%every == 0 {
			s.must(base.write(st.TakeChanges()))
			st.Projected(st.meta.Applied)
		}
		if restarts && s.chance("restart replay", 10) {
			st = s.open(base)
			st.maxItems, st.maxBytes = 0, 0
			seq = max(base.meta.Applied.Frame(), from-1)
		}
	}
	s.must(base.write(st.TakeChanges()))
	s.sameNotes(st)
	return base.dump()
}

// check holds after every decision.
func (s *sim) check() {
	o := s.oracle
	counts := map[events.Type]*events.TypeInfo{}
	holders := map[events.KeyRef]events.ID{}
	running := map[events.Token]events.ID{}
	for id, e := range o.items {
		it := e.cur
		if it == nil {
			continue
		}
		info := counts[it.Type]
		if info == nil {
			info = &events.TypeInfo{}
			counts[it.Type] = info
		}
		info.Counts[it.State]++
		if it.State == events.StateQueued {
			info.Queued[it.Priority]++
		}
		if it.HoldsDedup() {
			ref := events.KeyRef{Kind: events.KeyDedup, Type: it.Type, Key: it.DedupKey}
			if other, ok := holders[ref]; ok {
				s.t.Fatalf("%s and %s both hold %+v", other, id, ref)
			}
			holders[ref] = id
		}
		if it.State == events.StateClaimed || it.State == events.StateRunning {
			if other, ok := running[it.Token]; ok {
				s.t.Fatalf("%s and %s run under one token", other, id)
			}
			running[it.Token] = id
		}
		s.checkItem(it)
	}
	for ref, k := range o.keys.m {
		if ref.Kind != events.KeyDedup {
			continue
		}
		has := k.v.has && (k.v.held.Until.IsZero() || k.v.held.Until.After(o.meta.LastAt))
		if window := has && !k.v.held.Until.IsZero(); window && (holders[ref] != events.ID{} || o.items[k.v.held.ID].cur.State != events.StateCompleted) {
			s.t.Fatalf("key %+v: %+v is held for a window, and by %s", ref, k, holders[ref])
		} else if !window && (has != (holders[ref] != events.ID{}) || has && k.v.held.ID != holders[ref]) {
			s.t.Fatalf("key %+v: %+v, held by %s", ref, k, holders[ref])
		}
	}
	for name, e := range o.types {
		want := counts[name]
		if want == nil {
			want = &events.TypeInfo{}
		}
		live, _ := s.live.Type(name)
		if e.info.Counts != want.Counts || e.info.Queued != want.Queued || !reflect.DeepEqual(live, e.info) {
			s.t.Fatalf("type %s: counted %v %v, there are %v %v; live %+v", name, e.info.Counts, e.info.Queued, want.Counts, want.Queued, live)
		}
	}
	if len(counts) > len(o.types) || !reflect.DeepEqual(o.meta, s.live.meta) || o.meta.IntakeSeq > s.intake {
		s.t.Fatalf("meta %+v, live %+v", o.meta, s.live.meta)
	}
	s.checkCircuits()
	s.checkRelations()
	s.checkMailboxes()
	s.checkCauses()
	s.checkMemory()
}

func (s *sim) checkItem(it *events.Item) {
	bad := ""
	switch {
	case it.State == events.StateCreated || it.State == events.StateFailed || it.State == events.StateNone:
		bad = "a decision left it between two states"
	case int(it.Attempt) != s.runs[it.ID] || it.Attempt < 0:
		bad = "its attempts are miscounted"
	case it.MergedCount != s.merges[it.ID]:
		bad = "its merges are miscounted"
	case it.State.Terminal() == it.FinishedAt.IsZero():
		bad = "it is terminal or it has not finished"
	case (it.State == events.StateMerged) == it.MergedInto.IsZero():
		bad = "it is merged or it has not been merged into any"
	case it.State == events.StateRunning && !it.Deadline.After(it.StartedAt), it.State == events.StateClaimed && !it.StartBy.After(it.ClaimedAt):
		bad = "it has no deadline"
	case (it.State == events.StateClaimed || it.State == events.StateRunning) && (it.Worker == "" || it.Token == 0):
		bad = "nobody runs it"
	case it.State == events.StateQueued && (it.OrderAt.IsZero() || it.QueuedAt.IsZero()):
		bad = "it has no place in the queue"
	}
	if bad != "" {
		s.t.Fatalf("%s: %+v", bad, it)
	}
}

// checkMemory compares the live state's books with what it holds, and its
// items with the log's.
func (s *sim) checkMemory() {
	bytes := 0
	for id, e := range s.live.items {
		bytes += len(e.params)
		if e.cur == nil {
			if o := s.oracle.items[id]; o == nil || o.cur != nil {
				s.t.Fatalf("live has forgotten %s, the log has not", id)
			}
			continue
		}
		if o := s.oracle.items[id].cur; e.cur.ID != id || !reflect.DeepEqual(e.cur, o) && dumpItem(e.cur) != dumpItem(o) {
			s.t.Fatalf("live %+v\nlog  %+v", e.cur, s.oracle.items[id].cur)
		}
	}
	if items, counted := s.live.InMemory(); counted != bytes || items != len(s.live.items) {
		s.t.Fatalf("in memory %d items and %d bytes, counted %d and %d", len(s.live.items), bytes, items, counted)
	}
	for id, e := range s.oracle.items {
		p, err := s.live.Params(id)
		s.must(err)
		if e.cur == nil {
			if p != nil {
				s.t.Fatalf("%s is pruned and has params %q", id, p)
			}
			continue
		}
		if it := s.base.items[id]; it != nil && it.CreatedSeq != e.cur.CreatedSeq {
			continue // the base has an earlier item of this id
		}
		want, err := s.oracle.Params(id)
		s.must(err)
		if string(p) != string(want) || p == nil {
			s.t.Fatalf("params of %s, %s: %q, the log's are %q", id, e.cur.State, p, want)
		}
	}
}
