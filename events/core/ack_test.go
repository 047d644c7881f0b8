package core

import (
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenAck lives through what ack workers say.
func goldenAck(w *world) {
	set := events.DefaultTypeSettings()
	set.Protocol = events.ProtocolAck
	w.do(Configure{Type: "thumbnail", Source: events.SourceAPI, Settings: set})
	token := uint64(7000)
	say := func(id events.ID, c AckRun) {
		token++
		c.ID, c.Token, c.Dispatched, c.Random = id, events.NewToken(9, token), events.NewToken(9, token), 1<<62
		w.do(c)
	}
	id := w.submit(Submit{Type: "thumbnail"})
	w.now = w.now.Add(time.Minute)
	say(id, AckRun{Word: AckNak, Delay: 5 * time.Second})
	w.now = w.now.Add(5 * time.Second)
	say(id, AckRun{Word: AckExpired})
	say(id, AckRun{Word: AckSeen})
	w.now = w.now.Add(250 * time.Millisecond)
	w.do(AckRun{ID: id, Token: events.NewToken(9, token), Word: AckDone})
	say(w.submit(Submit{Type: "thumbnail"}), AckRun{Word: AckDone, Took: 1500 * time.Millisecond})
	say(w.submit(Submit{Type: "thumbnail"}), AckRun{Word: AckTerm, Reason: "not a picture"})
}

func TestWhatAnAckWorkerSays(t *testing.T) {
	tests := map[string]struct {
		word  AckRun
		kinds []events.Kind
		check func(it events.Item) bool
	}{
		"ack":     {AckRun{Word: AckDone, Took: 2 * time.Second}, []events.Kind{events.KindClaimed, events.KindRunning, events.KindCompleted}, func(it events.Item) bool { return it.StartedAt.Equal(it.FinishedAt.Add(-2 * time.Second)) }},
		"nak":     {AckRun{Word: AckNak}, []events.Kind{events.KindClaimed, events.KindRunning, events.KindFailed, events.KindQueued}, func(it events.Item) bool { return it.AvailableAt.Equal(it.QueuedAt.Add(time.Second)) }},
		"nak for": {AckRun{Word: AckNak, Delay: time.Hour}, []events.Kind{events.KindClaimed, events.KindRunning, events.KindFailed, events.KindQueued}, func(it events.Item) bool { return it.AvailableAt.Equal(it.QueuedAt.Add(time.Hour)) }},
		"term": {AckRun{Word: AckTerm, Reason: "no"}, []events.Kind{events.KindClaimed, events.KindRunning, events.KindFailed, events.KindDead, events.KindCauseNoted}, func(it events.Item) bool {
			return it.Error == "no" && it.Code == events.FailTerminated && it.Reason == "not_retryable"
		}},
		"expired": {AckRun{Word: AckExpired}, []events.Kind{events.KindClaimed, events.KindRunning, events.KindFailed, events.KindQueued}, func(it events.Item) bool {
			return it.Code == events.FailLeaseExpired && it.LeasesLost == 1 && it.AvailableAt.IsZero()
		}},
		"seen": {AckRun{Word: AckSeen}, []events.Kind{events.KindClaimed, events.KindRunning}, func(it events.Item) bool {
			return it.State == events.StateRunning && it.Worker == events.AckWorker("email")
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			set := events.DefaultTypeSettings()
			set.Backoff.Jitter = 0
			w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
			id := w.submit(Submit{})
			w.now = w.now.Add(time.Minute)
			c := test.word
			c.ID, c.Token = id, events.NewToken(1, 1)
			if d := w.do(c); !d.Repeat {
				t.Fatal("a word about no dispatch was taken")
			}
			c.Dispatched = c.Token
			from := len(w.log)
			w.do(c)
			var kinds []events.Kind
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
	id, tok := w.submit(Submit{}), events.NewToken(1, 1)
	w.do(AckRun{ID: id, Token: tok, Dispatched: tok, Word: AckSeen})
	if !w.do(AckRun{ID: id, Token: tok, Dispatched: tok, Word: AckSeen}).Repeat {
		t.Fatal("seen twice")
	}
	w.refused(events.CodeBadRequest, AckRun{ID: id, Token: tok, Word: 99})
	w.now = w.now.Add(time.Second)
	w.do(AckRun{ID: id, Token: tok, Word: AckDone})
	w.state(id, events.StateCompleted)
	if last := w.log[len(w.log)-1].Body.(*events.Completed); last.Duration != events.Millis(1000) {
		t.Fatalf("it took %d ms", last.Duration.Milliseconds())
	}
	if !w.do(AckRun{ID: id, Token: tok, Word: AckTerm}).Repeat {
		t.Fatal("it has ended twice")
	}
	// One that a worker has claimed is no ack worker's, whatever it says.
	other := w.submit(Submit{})
	run := w.claim(other, events.NewToken(1, 2))
	if !w.do(AckRun{ID: other, Token: run.Token, Dispatched: run.Token, Word: AckDone}).Repeat {
		t.Fatal("a claimed run was ended by an ack")
	}
	w.state(other, events.StateRunning)
}

// What would refuse a claim can't refuse a run that was: it is recorded, the
// circuit's probe with it, and no worker's circuit hears of it.
func TestAnAckRunIsRecordedWhateverHoldsClaimsBack(t *testing.T) {
	w := protect(t, func(s *events.TypeSettings) {
		s.Protocol = events.ProtocolAck
		s.Circuit = events.CircuitSettings{Consecutive: 2, Cooldown: events.Millis(1000), Probes: 1}
		s.Rates = []events.RateLimit{{Per: events.PerType, At: events.AtDispatch, N: 1, Interval: events.Millis(60_000)}}
	})
	w.s.SetLimits(events.Limits{WorkerCircuit: events.CircuitSettings{Consecutive: 1, Probes: 1}})
	n := uint64(100)
	say := func(word AckSignal) events.ID {
		n++
		id := w.submit(Submit{})
		w.do(AckRun{ID: id, Token: events.NewToken(1, n), Dispatched: events.NewToken(1, n), Word: word})
		return id
	}
	w.state(say(AckTerm), events.StateDead)
	w.state(say(AckNak), events.StateQueued) // beyond the rate, and the second failure in a row
	w.do(PauseType{Type: "email"})
	w.state(say(AckDone), events.StateCompleted)
	w.do(ResumeType{Type: "email"})
	if c := w.s.WorkerCircuit(events.AckWorker("email")); c.Consecutive != 0 || c.State != events.CircuitShut {
		t.Fatalf("the circuit of ack workers: %+v", c)
	}
	w.readBack()
}

func TestProtocolHasOneSpellingOfTheDefault(t *testing.T) {
	w := newWorld(t)
	set := events.DefaultTypeSettings()
	w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set})
	set.Protocol = events.ProtocolOffer
	if !w.do(Configure{Type: "email", Source: events.SourceAPI, Settings: set}).Repeat {
		t.Fatal("the default protocol, spelled out, is a change")
	}
	set.Protocol = "nack"
	w.refused(events.CodeBadRequest, Configure{Type: "email", Source: events.SourceAPI, Settings: set})
}
