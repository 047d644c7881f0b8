package events

import (
	"slices"
	"testing"
	"time"
)

// goldenNative lives through what native workers say.
func goldenNative(w *world) {
	set := DefaultTypeSettings()
	set.Protocol = ProtocolAck
	w.do(Configure{Type: "thumbnail", Source: SourceAPI, Settings: set})
	token := uint64(7000)
	say := func(id ID, c Native) {
		token++
		c.ID, c.Token, c.Dispatched, c.Random = id, NewToken(9, token), NewToken(9, token), 1<<62
		w.do(c)
	}
	id := w.submit(Submit{Type: "thumbnail"})
	w.now = w.now.Add(time.Minute)
	say(id, Native{Word: NativeNak, Delay: 5 * time.Second})
	w.now = w.now.Add(5 * time.Second)
	say(id, Native{Word: NativeExpired})
	say(id, Native{Word: NativeSeen})
	w.now = w.now.Add(250 * time.Millisecond)
	w.do(Native{ID: id, Token: NewToken(9, token), Word: NativeAck})
	say(w.submit(Submit{Type: "thumbnail"}), Native{Word: NativeAck, Took: 1500 * time.Millisecond})
	say(w.submit(Submit{Type: "thumbnail"}), Native{Word: NativeTerm, Reason: "not a picture"})
}

func TestWhatANativeWorkerSays(t *testing.T) {
	tests := map[string]struct {
		word  Native
		kinds []Kind
		check func(it Item) bool
	}{
		"ack":     {Native{Word: NativeAck, Took: 2 * time.Second}, []Kind{KindClaimed, KindRunning, KindCompleted}, func(it Item) bool { return it.StartedAt.Equal(it.FinishedAt.Add(-2 * time.Second)) }},
		"nak":     {Native{Word: NativeNak}, []Kind{KindClaimed, KindRunning, KindFailed, KindQueued}, func(it Item) bool { return it.AvailableAt.Equal(it.QueuedAt.Add(time.Second)) }},
		"nak for": {Native{Word: NativeNak, Delay: time.Hour}, []Kind{KindClaimed, KindRunning, KindFailed, KindQueued}, func(it Item) bool { return it.AvailableAt.Equal(it.QueuedAt.Add(time.Hour)) }},
		"term": {Native{Word: NativeTerm, Reason: "no"}, []Kind{KindClaimed, KindRunning, KindFailed, KindDead, KindCauseNoted}, func(it Item) bool {
			return it.Error == "no" && it.Code == FailTerminated && it.Reason == "not_retryable"
		}},
		"expired": {Native{Word: NativeExpired}, []Kind{KindClaimed, KindRunning, KindFailed, KindQueued}, func(it Item) bool {
			return it.Code == FailLeaseExpired && it.LeasesLost == 1 && it.AvailableAt.IsZero()
		}},
		"seen": {Native{Word: NativeSeen}, []Kind{KindClaimed, KindRunning}, func(it Item) bool { return it.State == StateRunning && it.Worker == NativeWorker("email") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set := DefaultTypeSettings()
			set.Backoff.Jitter = 0
			w.do(Configure{Type: "email", Source: SourceAPI, Settings: set})
			id := w.submit(Submit{})
			w.now = w.now.Add(time.Minute)
			c := test.word
			c.ID, c.Token = id, NewToken(1, 1)
			if d := w.do(c); !d.Repeat {
				t.Fatal("a word about no dispatch was taken")
			}
			c.Dispatched = c.Token
			from := len(w.log)
			w.do(c)
			var kinds []Kind
			for _, ev := range w.log[from:] {
				kinds = append(kinds, ev.Kind)
			}
			if !slices.Equal(kinds, test.kinds) || !test.check(w.item(id)) {
				t.Fatalf("%v, and the item is %+v", kinds, w.item(id))
			}
			if d := w.do(c); !d.Repeat {
				t.Fatalf("told again, it is %+v", d)
			}
			w.readBack()
		})
	}
}

func TestARunThatWasSeenEndsOnce(t *testing.T) {
	w := newWorld(t)
	id, tok := w.submit(Submit{}), NewToken(1, 1)
	w.do(Native{ID: id, Token: tok, Dispatched: tok, Word: NativeSeen})
	if !w.do(Native{ID: id, Token: tok, Dispatched: tok, Word: NativeSeen}).Repeat {
		t.Fatal("seen twice")
	}
	w.refused(CodeBadRequest, Native{ID: id, Token: tok, Word: 99})
	w.now = w.now.Add(time.Second)
	w.do(Native{ID: id, Token: tok, Word: NativeAck})
	w.state(id, StateCompleted)
	if last := w.log[len(w.log)-1].Body.(*Completed); last.DurationMS != 1000 {
		t.Fatalf("it took %d ms", last.DurationMS)
	}
	if !w.do(Native{ID: id, Token: tok, Word: NativeTerm}).Repeat {
		t.Fatal("it has ended twice")
	}
	// One that a worker has claimed is no native worker's, whatever it says.
	other := w.submit(Submit{})
	run := w.claim(other, NewToken(1, 2))
	if !w.do(Native{ID: other, Token: run.Token, Dispatched: run.Token, Word: NativeAck}).Repeat {
		t.Fatal("a claimed run was ended by an ack")
	}
	w.state(other, StateRunning)
}

// What would refuse a claim can't refuse a run that was: it is recorded, the
// circuit's probe with it, and no worker's circuit hears of it.
func TestANativeRunIsRecordedWhateverHoldsClaimsBack(t *testing.T) {
	w := protect(t, func(s *TypeSettings) {
		s.Protocol = ProtocolAck
		s.Circuit = CircuitSettings{Consecutive: 2, CooldownMS: 1000, Probes: 1}
		s.Rates = []RateLimit{{Per: PerType, At: AtDispatch, N: 1, IntervalMS: 60_000}}
	})
	w.s.SetLimits(Limits{WorkerCircuit: CircuitSettings{Consecutive: 1, Probes: 1}})
	n := uint64(100)
	say := func(word NativeWord) ID {
		n++
		id := w.submit(Submit{})
		w.do(Native{ID: id, Token: NewToken(1, n), Dispatched: NewToken(1, n), Word: word})
		return id
	}
	w.state(say(NativeTerm), StateDead)
	w.state(say(NativeNak), StateQueued) // beyond the rate, and the second failure in a row
	w.do(PauseType{Type: "email"})
	w.state(say(NativeAck), StateCompleted)
	w.do(ResumeType{Type: "email"})
	if c := w.s.WorkerCircuit(NativeWorker("email")); c.Consecutive != 0 || c.State != CircuitShut {
		t.Fatalf("the circuit of native workers: %+v", c)
	}
	w.readBack()
}

func TestProtocolHasOneSpellingOfTheDefault(t *testing.T) {
	w := newWorld(t)
	set := DefaultTypeSettings()
	w.do(Configure{Type: "email", Source: SourceAPI, Settings: set})
	set.Protocol = ProtocolClaim
	if !w.do(Configure{Type: "email", Source: SourceAPI, Settings: set}).Repeat {
		t.Fatal("the default protocol, spelled out, is a change")
	}
	set.Protocol = "nack"
	w.refused(CodeBadRequest, Configure{Type: "email", Source: SourceAPI, Settings: set})
}
