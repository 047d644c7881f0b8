package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// sim runs drawn commands against two states: live, as the engine has it, over
// a projection that lags behind, with a tiny cache and restarts; and oracle,
// which has read the encoded log from its beginning and never lets go of
// anything.
type sim struct {
	t       *rapid.T
	now     time.Time
	live    *State
	base    *mapBase
	pending []*Changes // taken and not yet written
	oracle  *State
	log     []frame // the one at i has sequence i+1

	ids      []events.ID
	dispatch map[events.ID]events.Token // the dispatcher's volatile table
	spent    []Run                      // runs that were granted, in order
	rejected []events.Seq               // events of submissions that became no item
	tokens   uint64
	claimed  map[events.Token]events.ID
	runs     map[events.ID]int // claimed less released
	merges   map[events.ID]int
	started  map[events.ID]bool // items that have been running since their submission or replay
	letters  letters
	follow   []events.ID        // items that the live state has said may need a follow-up
	busy     map[events.ID]bool // items for which an errand is being done
	intake   uint64
	newIDs   int
	rates    map[events.Type]map[string]*rateModel // since the type was last configured
	ticks    map[string]events.Schedule            // as its events say
	spaces   map[events.Namespace]events.NamespaceInfo
}

const tinyCache = 2

func newSim(t *rapid.T) *sim {
	s := &sim{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC), base: newMapBase(), dispatch: map[events.ID]events.Token{},
		claimed: map[events.Token]events.ID{}, runs: map[events.ID]int{}, merges: map[events.ID]int{}, started: map[events.ID]bool{}, busy: map[events.ID]bool{},
		letters: newLetters()}
	s.oracle = s.open(Empty{})
	s.live = s.open(s.base)
	s.live.maxItems, s.live.maxBytes = tinyCache, 64
	return s
}

func (s *sim) must(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

func (s *sim) open(b Base) *State {
	st, err := NewState(b)
	s.must(err)
	st.SetLimits(simLimits)
	st.causes.max, st.maxDrains = fewCauses, fewDrains
	return st
}

func (s *sim) chance(label string, percent int) bool {
	return rapid.IntRange(0, 99).Draw(s.t, label) < percent
}

func pick[T any](s *sim, label string, from ...T) T { return rapid.SampledFrom(from).Draw(s.t, label) }

// step draws one thing to happen.
func (s *sim) step() {
	switch rapid.IntRange(0, 24).Draw(s.t, "step") {
	case 0, 1, 2, 3:
		s.do(s.submit())
	case 4, 5:
		s.do(s.claim())
	case 6, 7:
		s.do(s.report())
	case 8:
		s.do(s.operator())
	case 9:
		s.do(s.signal())
	case 10:
		s.now = s.now.Add(pick(s, "pass", -time.Second, time.Millisecond, time.Second, 31*time.Second, events.MsgIDWindow, 6*time.Minute, events.IdempotencyWindow))
	case 11:
		s.project()
	case 12:
		if s.chance("restart", 30) {
			s.restart()
		}
	case 13:
		s.do(s.flowCommand())
	case 14:
		s.do(s.circuitCommand())
	case 15:
		s.do(s.limitsCommand())
	case 16:
		s.do(s.scheduleCommand())
	case 17:
		s.do(s.replayCommand())
	case 18:
		s.retentionStep()
	case 19, 20:
		s.ackStep()
	case 21:
		s.do(s.namespaceCommand())
	case 22, 23, 24:
		s.do(s.waitCommand())
	}
}

func (s *sim) submit() Command {
	c := s.draft()
	if s.chance("with a signal", 15) {
		c.Signal = &FirstSignal{Name: pick(s, "first signal", "go", "pay"), MsgID: pick(s, "its id", "", "m1", "m2", "m3"), Payload: json.RawMessage(pick(s, "its payload", "", `{"n": 1}`, "no"))}
	}
	if s.chance("by intake", 40) {
		s.intake++
		c.Intake = events.Intake{Seq: s.intake, MsgID: pick(s, "msg id", "", "m", "n")}
		if s.chance("unreadable", 15) {
			return Reject{Type: c.Type, Rejected: events.Rejected{Code: "bad_params", Message: "no", Text: pick(s, "text", "", "hello", "\xff"), Intake: c.Intake}}
		}
	}
	return c
}

// draft is a submission, to be sent or spawned.
func (s *sim) draft() Submit {
	c := Submit{
		Type:           pick(s, "type", events.Type("email"), "call", "Bad Type"),
		Params:         json.RawMessage(pick(s, "params", "", "null", ` {"a" : "<&>"} `, "[1,2", "\"\u2028\"")),
		NewID:          s.freshID(),
		DedupKey:       pick(s, "dedup", "", "", "a", "é\""),
		IdempotencyKey: pick(s, "idempotency", "", "", "", "i", "j"),
		Delay:          pick(s, "delay", 0, 0, 0, time.Second, time.Hour),
		MaxAttempts:    pick(s, "attempts", events.Attempt(0), 0, 1, 2, -1),
		Timeout:        pick(s, "timeout", 0, 0, time.Minute, time.Nanosecond),
		Provenance:     events.Provenance{Source: pick(s, "source", "", "api", "heartbeat")},
	}
	switch rapid.IntRange(0, 5).Draw(s.t, "extras") {
	case 0:
		c.Capabilities = []string{"gpu", "big-mem", "gpu"}
	case 1:
		c.Labels, c.Tenant = map[string]string{"k": "v", "<": "\x01"}, "acme"
	case 2:
		c.Labels, c.Capabilities = map[string]string{}, []string{}
	case 3:
		c.ID = c.NewID
		if len(s.ids) > 0 && s.chance("known id", 60) {
			c.ID = pick(s, "id", s.ids...)
		}
	case 4:
		p := pick(s, "priority", events.Priority(0), 5, 9, 10)
		c.Priority = &p
	case 5:
		c.AvailableAt = s.now.Add(pick(s, "at", -time.Hour, time.Minute, 11*365*24*time.Hour))
	}
	s.flowTerms(&c)
	if c.DedupKey == "" && !s.chance("terms of no key", 3) {
		c.DedupPolicy, c.DedupWindow = "", nil // they are refused
	}
	return c
}

func (s *sim) freshID() events.ID {
	s.newIDs++
	return crowdID(s.newIDs)
}

func (s *sim) anID() events.ID {
	if len(s.ids) == 0 || s.chance("unknown id", 3) {
		return crowdID(1 << 30)
	}
	return pick(s, "item", s.ids...)
}

// claim claims a queued item under a new token, mostly; or claims amiss.
func (s *sim) claim() Command {
	id := s.anID()
	it, err := s.oracle.Item(id)
	s.must(err)
	if it != nil && it.State == events.StateQueued && s.chance("dispatch", 70) {
		s.tokens++
		s.dispatch[id] = events.NewToken(1, s.tokens)
	}
	c := Claim{ID: id, Token: s.dispatch[id], Worker: pick(s, "worker", events.WorkerID("w1"), "w1", "w2", "no worker"), Start: s.chance("start", 60)}
	switch rapid.IntRange(0, 9).Draw(s.t, "amiss") {
	case 0:
		c.Token = 0
	case 1, 2:
		for _, r := range s.spent {
			if r.ID == id {
				c.Token = r.Token
				break
			}
		}
	}
	return c
}

// run is one that was granted, the last one mostly; or one that never was.
func (s *sim) run() Run {
	if len(s.spent) == 0 {
		return Run{ID: s.anID(), Token: 1, Worker: "w1"}
	}
	r := s.spent[len(s.spent)-1]
	if s.chance("older run", 50) {
		r = pick(s, "run", s.spent...)
	}
	switch rapid.IntRange(0, 19).Draw(s.t, "run amiss") {
	case 0:
		r.Token++
	case 1:
		r.Worker = "w3"
	case 2:
		r.Attempt = events.Attempt(rapid.IntRange(1, 3).Draw(s.t, "attempt"))
	case 3:
		r.ID = s.anID()
	}
	return r
}

func (s *sim) report() Command {
	r := s.run()
	switch rapid.IntRange(0, 5).Draw(s.t, "report") {
	case 0:
		return Start{Run: r}
	case 1, 2:
		return Complete{Run: r, Result: json.RawMessage(pick(s, "result", "", "null", `{ "x": "<" }`, "no"))}
	case 3, 4:
		return Fail{Run: r, Error: pick(s, "error", "", "boom \xff"), Code: pick(s, "code", "", "logic", "network", events.FailTimeout), Retryable: s.chance("retryable", 80),
			RetryAfter: pick(s, "retry after", 0, 0, time.Minute, -1), Random: rapid.Uint64().Draw(s.t, "random")}
	}
	return Release{Run: r, Reason: pick(s, "reason", "", "shutdown")}
}

func (s *sim) operator() Command {
	switch rapid.IntRange(0, 5).Draw(s.t, "operator") {
	case 0, 1:
		return Cancel{ID: s.anID(), Reason: pick(s, "reason", "", "superseded")}
	case 2, 3:
		c := Reschedule{ID: s.anID(), Now: s.chance("now", 30), Delay: pick(s, "delay", 0, time.Minute)}
		if s.chance("reprioritise", 50) {
			p := events.Priority(rapid.IntRange(0, 10).Draw(s.t, "priority"))
			c.Priority = &p
		}
		return c
	case 4:
		return Define{Type: pick(s, "type", events.Type("email"), "call", "sms", "")}
	}
	set := events.DefaultTypeSettings()
	set.MaxAttempts = events.Attempt(rapid.IntRange(0, 4).Draw(s.t, "max attempts"))
	if s.chance("per priority", 50) {
		set.PerPriority = map[events.Priority]events.PriorityOverride{}
		if s.chance("override", 50) {
			set.PerPriority[9] = events.PriorityOverride{Timeout: new(events.Millis(1000)), Backoff: &events.Backoff{Factor: 1.1, Max: events.Millis(5)}}
		}
	}
	return Configure{Type: pick(s, "type", events.Type("email"), "call", "sms"), Source: pick(s, "source", events.SourceAPI, events.SourceFile, ""), Settings: set}
}

func (s *sim) signal() Command {
	switch rapid.IntRange(0, 5).Draw(s.t, "signal") {
	case 0:
		if s.chance("accept the clock", 30) {
			s.now = s.now.Add(pick(s, "to", -time.Second, -time.Hour, -45*24*time.Hour, 45*24*time.Hour))
			for name, sch := range s.ticks {
				sch.LastTick = earlier(sch.LastTick, s.now) // they may come again
				s.ticks[name] = sch
			}
			return Own{Owner: "o", Version: "v", Clock: &AcceptClock{At: s.now, By: "ops"}}
		}
		return Own{Owner: "o", Version: "v", Barrier: s.oracle.Meta().Epoch > 0 && s.chance("barrier", 50)}
	case 1, 2:
		return Due{ID: s.anID(), NewID: s.freshID(), Random: rapid.Uint64().Draw(s.t, "random")}
	case 3:
		return Recount{ID: s.anID()}
	}
	r := s.run()
	return ExpireLease{ID: r.ID, Token: r.Token, Heard: pick(s, "heard", time.Time{}, s.now, s.now.Add(-time.Minute)), Heartbeat: pick(s, "heartbeat", 0, time.Minute), Random: rapid.Uint64().Draw(s.t, "random")}
}

// do decides by both states, twice, and applies; follow-ups may come behind. It
// returns its own decision, which has no events if it was refused.
func (s *sim) do(c Command) Decision {
	before := s.observe()
	dec, err := Decide(s.live, c, s.now)
	again, err2 := Decide(s.live, c, s.now)
	if !reflect.DeepEqual(dec, again) || !reflect.DeepEqual(err, err2) {
		s.t.Fatalf("%T decided twice: %+v %v, then %+v %v", c, dec, err, again, err2)
	}
	if after := s.observe(); before != after {
		s.t.Fatalf("Decide of %T changed the state from\n%s\nto\n%s", c, before, after)
	}
	other, err2 := Decide(s.oracle, c, s.now)
	if !reflect.DeepEqual(dec, other) || !reflect.DeepEqual(err, err2) {
		s.t.Fatalf("%T: the live state decides\n%+v %v, the log's\n%+v %v", c, dec, err, other, err2)
	}
	if err != nil {
		var refused *events.Error
		if !errors.As(err, &refused) || refused.Code == "" || refused.Code == events.CodeInternal || len(dec.Events) > 0 || refused.Message == "" {
			s.t.Fatalf("%T: %+v %v", c, dec, err)
		}
		return dec
	}
	if n := len(dec.Events); n > MaxEvents(c) {
		s.t.Fatalf("%T made %d events, at most %d were said", c, n, MaxEvents(c))
	}
	runs := s.limitsNow()
	if len(dec.Events) > 0 {
		s.log = append(s.log, frame{before: s.oracle.meta.Events})
	}
	for _, ev := range dec.Events {
		s.apply(ev)
	}
	s.limited(runs, dec)
	if sub, ok := c.(Submit); ok && sub.Priority != nil {
		s.checkRaised(dec)
	}
	s.checkLimits()
	s.noteFollowUps()
	s.check()
	s.someFollowUps(c)
	return dec
}

// checkRaised: what a submission was merged into has the priority that it names, unless it runs or
// has ended.
func (s *sim) checkRaised(dec Decision) {
	for _, ev := range dec.Events {
		m, is := ev.Body.(*events.Merged)
		if !is {
			continue
		}
		it, into := s.oracle.items[ev.ID].cur, s.oracle.items[m.Into].cur
		if waits := into.State == events.StateQueued || into.State == events.StateWaiting; waits && into.Priority < it.Priority {
			s.t.Fatalf("of priority %d, merged into %s of %d: %+v", it.Priority, into.State, into.Priority, m)
		}
	}
}

// observe shows what a Decide must leave as it is.
func (s *sim) observe() string {
	st := s.live
	return fmt.Sprint(st.meta, st.changed, len(st.dirtyItems), len(st.dirtyKeys), len(st.dirtyTypes), len(st.history), len(st.merged), len(st.types), len(st.keys.m))
}

// frame is a decision in the log.
type frame struct {
	before uint64 // the events before it
	lines  [][]byte
}

// apply adds an event to the last frame.
func (s *sim) apply(ev events.Event) {
	f := &s.log[len(s.log)-1]
	ev.Seq = events.SeqOf(uint64(len(s.log)), len(f.lines))
	data, err := ev.AppendJSON(nil)
	s.must(err)
	f.lines = append(f.lines, data)
	s.must(s.live.Apply(ev))
	s.must(s.oracle.Apply(s.decode(ev.Seq)))
	s.letters.apply(ev)
	switch b := ev.Body.(type) {
	case *events.Created:
		s.ids = append(s.ids, ev.ID)
		s.runs[ev.ID], s.merges[ev.ID], s.started[ev.ID] = 0, 0, false // a pruned item's id may be used again
	case *events.Claimed:
		if !ev.Worker.Ack() {
			s.checkClaim(ev, b)
		}
		if of, ok := s.claimed[b.Token]; ok {
			s.t.Fatalf("token %s was granted for %s and for %s", b.Token, of, ev.ID)
		}
		s.claimed[b.Token] = ev.ID
		s.spent = append(s.spent, Run{ID: ev.ID, Token: b.Token, Worker: ev.Worker})
		s.runs[ev.ID]++
	case *events.Rejected:
		s.rejected = append(s.rejected, ev.Seq)
	case *events.Running:
		s.started[ev.ID] = true
	case *events.Cancelled:
		if b.Reason == "expired" && s.started[ev.ID] {
			s.t.Fatalf("%s had started, and is cancelled as expired", ev.ID)
		}
	case *events.Released, *events.Snoozed, *events.Parked:
		s.runs[ev.ID]--
	case *events.Spawned:
		if b.Part == 0 && !b.Batch {
			s.runs[ev.ID]--
		}
	case *events.Merged:
		s.merges[b.Into]++
	case *events.ScheduleSet, *events.ScheduleRemoved, *events.ScheduleFired:
		s.scheduleChanged(b)
	case *events.NamespaceSet, *events.NamespaceRemoved:
		s.namespaceChanged(b)
	}
}

func (s *sim) decode(seq events.Seq) events.Event {
	ev, err := events.DecodeEvent(s.log[seq.Frame()-1].lines[seq.Index()])
	s.must(err)
	ev.Seq = seq
	return ev
}

// read applies a frame of the log to a state.
func (s *sim) read(st *State, seq uint64) {
	f := s.log[seq-1]
	counts, err := st.Frame(seq, st.meta.Epoch, f.before)
	if s.must(err); !counts {
		s.t.Fatalf("frame %d is passed over", seq)
	}
	for i := range f.lines {
		s.must(st.Apply(s.decode(events.SeqOf(seq, i))))
	}
}

// project takes changes, and writes some of what has been taken.
func (s *sim) project() {
	if c := s.live.TakeChanges(); c != nil {
		s.pending = append(s.pending, c)
	}
	for range rapid.IntRange(0, len(s.pending)).Draw(s.t, "written") {
		s.must(s.base.write(s.pending[0]))
		s.live.Projected(s.pending[0].Meta.Applied)
		s.pending = slices.Delete(s.pending, 0, 1)
	}
}

// restart loses everything but the base, and reads the log's tail.
func (s *sim) restart() {
	s.pending = nil
	s.live = s.open(s.base)
	s.live.maxItems, s.live.maxBytes = tinyCache, 64
	for seq := s.base.meta.Applied.Frame() + 1; seq <= uint64(len(s.log)); seq++ {
		s.read(s.live, seq)
	}
	s.findFollowUps()
}

// settle projects everything.
func (s *sim) settle() {
	if c := s.live.TakeChanges(); c != nil {
		s.pending = append(s.pending, c)
	}
	for _, c := range s.pending {
		s.must(s.base.write(c))
		s.live.Projected(c.Meta.Applied)
	}
	s.pending = nil
}
