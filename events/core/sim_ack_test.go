package core

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// ackStep has an ack worker, or what has heard of one, say something; and
// sometimes say it again.
func (s *sim) ackStep() {
	c := s.ackWord()
	before, err := s.oracle.Item(c.ID)
	s.must(err)
	if before != nil {
		copied := *before // which the state goes on to change
		before = &copied
	}
	s.checkAck(before, c, s.do(c).Events)
	if s.chance("heard twice", 40) {
		s.again(c)
	}
}

// again has a word told once more: it must add nothing.
func (s *sim) again(c AckRun) {
	it, err := s.oracle.Item(c.ID)
	s.must(err)
	if it == nil || it.State == events.StateQueued && it.Token != c.Token && c.Token == c.Dispatched {
		return // not heard the first time
	}
	dec, err := Decide(s.oracle, c, s.now)
	if running := it.State == events.StateRunning && it.Token == c.Token && it.Worker.Ack() && c.Word != AckSeen; running {
		return // the first one was refused
	}
	if err != nil || !dec.Repeat || len(dec.Events) > 0 {
		s.t.Fatalf("told again, %+v of %+v makes %+v %v", c, it, dec, err)
	}
}

func (s *sim) ackWord() AckRun {
	id := s.anID()
	if s.chance("one that waits", 60) {
		for _, known := range s.ids {
			if it, err := s.oracle.Item(known); err == nil && it != nil && (it.State == events.StateQueued || it.Worker.Ack() && it.State == events.StateRunning) {
				id = known
			}
		}
	}
	it, err := s.oracle.Item(id)
	s.must(err)
	if it != nil && it.State == events.StateQueued && s.chance("dispatch", 70) {
		s.tokens++
		s.dispatch[id] = events.NewToken(1, s.tokens)
	}
	c := AckRun{
		ID: id, Token: s.dispatch[id], Dispatched: s.dispatch[id], Word: pick(s, "word", AckSeen, AckDone, AckNak, AckTerm, AckExpired),
		Took: pick(s, "took", 0, time.Second, -time.Second), Delay: pick(s, "delay", 0, time.Minute, -1), Reason: pick(s, "reason", "", "no \xff good"),
		Random: rapid.Uint64().Draw(s.t, "random"),
	}
	if it != nil && it.State == events.StateRunning && s.chance("its run", 80) {
		c.Token, c.Dispatched = it.Token, it.Token
	}
	switch rapid.IntRange(0, 9).Draw(s.t, "amiss") {
	case 0:
		c.Token++
	case 1:
		c.Dispatched = 0
	case 2:
		c.Word = 0
	case 3:
		if len(s.spent) > 0 {
			c.Token = pick(s, "old run", s.spent...).Token
		}
	}
	return c
}

// checkAck holds what a word has made of its item against what it is about.
func (s *sim) checkAck(before *events.Item, c AckRun, made []events.Event) {
	var kinds []events.Kind
	for _, ev := range made {
		if ev.ID == c.ID && ev.Kind != events.KindCauseNoted {
			kinds = append(kinds, ev.Kind) // and not what follows from it for others, or a circuit
		}
	}
	if len(kinds) == 0 {
		return
	}
	var want []events.Kind
	switch {
	case before.State == events.StateQueued && c.Token == c.Dispatched && c.Token != 0 && c.Token != before.Token:
		want = []events.Kind{events.KindClaimed, events.KindRunning}
	case before.State == events.StateRunning && c.Token == before.Token && before.Worker.Ack() && c.Word != AckSeen:
	default:
		s.t.Fatalf("%+v of %+v made %v", c, before, kinds)
	}
	switch c.Word {
	case AckDone:
		want = append(want, events.KindCompleted)
	case AckTerm:
		want = append(want, events.KindFailed, events.KindDead)
	case AckNak, AckExpired:
		want = append(want, events.KindFailed, kinds[len(kinds)-1])
	}
	if end := kinds[len(kinds)-1]; !slices.Equal(kinds, want) || len(want) > 2 && end != events.KindCompleted && end != events.KindQueued && end != events.KindDead {
		s.t.Fatalf("%+v of %+v made %v, not %v", c, before, kinds, want)
	}
}
