package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// paged reads page by page to the end, and lists what it gets.
func paged(t *testing.T, p *Pages, q PageQuery) (got []string) {
	t.Helper()
	for {
		page, err := p.Read(testContext(t), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Events {
			got = append(got, fmt.Sprintf("%d:%s:%s", ev.Seq, ev.Kind, markOf(ev)))
		}
		if len(page.Events) == 0 && !page.More {
			return got
		}
		q.From, q.Since = page.Next, time.Time{}
	}
}

// Pages give what a tail gives, however small they are: whole decisions, and
// nothing that no engine wrote, whatever headers it has.
func TestPagesAreTheLog(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	nc := dialTail(t, f.s)
	l := f.open(t, false, nil)
	other := decision(1, "o")
	other[0].Type = "resize"
	after := mustAppend(t, l, 0, decision(2, "a")) // 1, 2
	after = mustAppend(t, l, after, other)         // 3
	f.fault(l, Fault{Kind: FaultPrefix, N: 2}, 3)  // 4, 5: cut
	if _, err := l.Append(testContext(t), after, decision(3, "cut")); !errors.Is(err, ErrAmbiguous) {
		t.Fatal(err)
	}
	last, err := Settle(testContext(t), l, 0, ownedBarrier("me"), func(Group) error { return nil }) // 6
	if err != nil {
		t.Fatal(err)
	}
	after = mustAppend(t, l, last, decision(3, "b"))            // 7, 8, 9
	f.inject(t, "work.event.0.email.created", "", []byte("hm")) // 10
	forged := &nats.Msg{Subject: "work.event.0.email.created", Data: []byte("{}"), Header: nats.Header{
		"Status": {"404"}, "Nats-Sequence": {"x"}, "Nats-Stream": {"OTHER"}, "Nats-Num-Pending": {"0"}, "Description": {"Message Not Found"},
	}}
	if _, err := f.nc.RequestMsg(forged, testTimeout); err != nil { // 11
		t.Fatal(err)
	}
	mustAppend(t, l, after+2, singles(1, "c")) // 12
	all := []string{"1:created:a", "2:queued:a", "3:created:o", "6:owned:owned:me", "7:created:b", "8:queued:b", "9:queued:b", "12:created:c"}
	p := NewPages(nc, wire.Default, func() events.Seq { return 12 })
	for name, c := range map[string]struct {
		q    PageQuery
		want []string
	}{
		"all":                    {PageQuery{From: 1}, all},
		"one at a time":          {PageQuery{From: 1, Limit: 1}, all},
		"few bytes":              {PageQuery{From: 1, MaxBytes: 1}, all},
		"midway":                 {PageQuery{From: 8}, all[5:]},
		"from a position":        {PageQuery{From: 3}, all[2:]},
		"the partition's":        {PageQuery{From: 1, Types: []events.Type{""}}, all[3:4]},
		"a kind, midway":         {PageQuery{From: 4, Kinds: []events.Kind{events.KindQueued}}, all[5:7]},
		"no such type":           {PageQuery{From: 1, Types: []events.Type{"none"}}, nil},
		"since long ago, a type": {PageQuery{Since: testTime, Types: []events.Type{"resize"}}, all[2:3]},
		"what was cut":           {PageQuery{From: 5}, all[3:]},
		"a kind":                 {PageQuery{From: 1, Kinds: []events.Kind{events.KindCreated}}, []string{all[0], all[2], all[4], all[7]}},
		"a type":                 {PageQuery{From: 1, Types: []events.Type{"resize"}}, all[2:3]},
		"types, kinds":           {PageQuery{From: 1, Types: []events.Type{"", "email"}, Kinds: []events.Kind{events.KindCreated, events.KindOwned}}, []string{all[0], all[3], all[4], all[7]}},
		"an id":                  {PageQuery{From: 1, ID: testID(1)}, []string{"2:queued:a", "8:queued:b"}},
		"since":                  {PageQuery{Since: testTime}, all},
		"since later":            {PageQuery{Since: time.Now().Add(time.Hour)}, nil},
		"from the end":           {PageQuery{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := paged(t, p, c.q); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	var behind *BehindError
	if _, err := p.Read(testContext(t), PageQuery{From: 99}, nil); !errors.As(err, &behind) || behind.Last != 12 {
		t.Errorf("past the end: %v", err)
	}
}

// A decision that is still being written is waited for, and told once, in order.
func TestPagesWaitForTheEndOfADecision(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	nc := dialTail(t, f.s)
	l := f.open(t, false, nil)
	last := mustAppend(t, l, 0, singles(1, "old")) // 1
	var position atomic.Uint64
	position.Store(uint64(last))
	p := NewPages(nc, wire.Default, func() events.Seq { return events.Seq(position.Load()) })
	f.fault(l, Fault{Kind: FaultLate, N: 1}, 2)
	if _, err := l.Append(testContext(t), last, decision(2, "late")); !errors.Is(err, ErrAmbiguous) {
		t.Fatal(err)
	}
	page, err := p.Read(testContext(t), PageQuery{From: 2, Wait: time.Millisecond}, nil)
	if err != nil || len(page.Events) != 0 || page.Next != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	got := make(chan events.Seq, 2)
	go func() {
		defer close(got)
		for next := events.Seq(2); next < 4; {
			page, err := p.Read(testContext(t), PageQuery{From: next, Wait: testTimeout}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for _, ev := range page.Events {
				got <- ev.Seq
			}
			next = page.Next
		}
	}()
	f.land()
	position.Store(3)
	p.Grown()
	if a, b := <-got, <-got; a != 2 || b != 3 {
		t.Errorf("told %d and %d", a, b)
	}
}

// Someone who waits ends with his context.
func TestPagesEndWithTheContext(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	nc := dialTail(t, f.s)
	mustAppend(t, f.open(t, false, nil), 0, singles(1, "old"))
	p := NewPages(nc, wire.Default, func() events.Seq { return 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Read(ctx, PageQuery{From: 2, Wait: time.Hour}, func(context.Context) (func(), error) { return cancel, nil })
		ended <- err
	}()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A page of a rare type goes on to its next event, and still says what is cut.
func TestAPageOfARareTypeIsRead(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	l := f.open(t, false, nil)
	rare := decision(1, "rare")
	rare[0].Type = "rare"
	after := mustAppend(t, l, 0, singles(20, "many"))     // 1 to 20
	after = mustAppend(t, l, after, rare)                 // 21
	after = mustAppend(t, l, after, singles(9, "behind")) // 22 to 30
	if err := l.Purge(testContext(t), 10); err != nil {
		t.Fatal(err)
	}
	p := NewPages(dialTail(t, f.s), wire.Default, func() events.Seq { return after })
	q := PageQuery{From: 1, Types: []events.Type{"rare"}}
	page, err := p.Read(testContext(t), q, nil)
	if err != nil || page.First != 10 || len(page.Events) != 1 || page.Events[0].Seq != 21 || page.Next != 31 {
		t.Errorf("from the start: %+v, %v", page, err)
	}
	q.From = 22
	page, err = p.Read(testContext(t), q, nil)
	if err != nil || page.First != 0 || len(page.Events) != 0 || page.Next != 31 {
		t.Errorf("from behind it: %+v, %v", page, err)
	}
}
