package pages_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	. "github.com/streamwright/streamwright/eventlog/pages"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// at names a position as frame.index.
func at(s events.Seq) string { return fmt.Sprintf("%d.%d", s.Frame(), s.Index()) }

// atEnd is a position function that says where a log ends.
func atEnd(frame uint64) func() events.Seq {
	return func() events.Seq { return events.SeqOf(frame, 0) }
}

// paged reads page by page to the end, and lists what it gets.
func paged(t *testing.T, p *Reader, q Query) (got []string) {
	t.Helper()
	for {
		page, err := p.Read(logtest.Context(t), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range page.Events {
			got = append(got, fmt.Sprintf("%s:%s:%s", at(ev.Seq), ev.Kind, logtest.MarkOf(ev)))
		}
		if len(page.Events) == 0 && !page.More {
			return got
		}
		q.From, q.Since = page.Next, time.Time{}
	}
}

// Pages give what the log has, however small they are, and nothing that no engine wrote,
// whatever headers it has.
func TestPagesAreTheLog(t *testing.T) {
	l := newRig(t)
	other := logtest.Decision(1, "o")
	other[0].Type = "resize"
	l.add(t, 0, logtest.Decision(2, "a"))
	l.add(t, 1, other)
	l.add(t, 2, slices.Concat(logtest.Decision(3, "b"), other, []events.Event{logtest.Owned("me")}))
	l.inject(t, nil, []byte("hm"))
	l.inject(t, nats.Header{ // what a server answers where there is nothing more
		"Status": {"404"}, "Nats-Sequence": {"x"}, "Nats-Stream": {"OTHER"}, "Nats-Num-Pending": {"0"}, "Description": {"Message Not Found"},
	}, []byte("{}"))
	l.add(t, 5, logtest.Decision(1, "c"))
	all := []string{"1.0:created:a", "1.1:queued:a", "2.0:created:o", "3.0:created:b", "3.1:queued:b", "3.2:queued:b", "3.3:created:o", "3.4:owned:owned:me", "6.0:created:c"}
	pick := func(is ...int) (out []string) {
		for _, i := range is {
			out = append(out, all[i])
		}
		return out
	}
	p := NewReader(l.dial(t), wire.Default, atEnd(6), nil)
	created := []events.Kind{events.KindCreated}
	for name, c := range map[string]struct {
		q    Query
		want []string
	}{
		"all":                    {Query{From: 1}, all},
		"one at a time":          {Query{From: 1, Limit: 1}, all},
		"few, across frames":     {Query{From: 1, Limit: 4}, all},
		"few bytes":              {Query{From: 1, MaxBytes: 1}, all},
		"some bytes":             {Query{From: 1, MaxBytes: 500}, all},
		"from a frame":           {Query{From: events.SeqOf(2, 0)}, all[2:]},
		"from within a frame":    {Query{From: events.SeqOf(3, 2)}, all[5:]},
		"behind a frame's end":   {Query{From: events.SeqOf(3, 5)}, all[8:]},
		"from a foreign message": {Query{From: events.SeqOf(4, 0)}, all[8:]},
		"from the next frame":    {Query{From: events.SeqOf(7, 0)}, nil},
		"the partition's":        {Query{From: 1, Types: []events.Type{""}}, pick(7)},
		"a type, one at a time":  {Query{From: 1, Types: []events.Type{"resize"}, Limit: 1}, pick(2, 6)},
		"no such type":           {Query{From: 1, Types: []events.Type{"none"}}, nil},
		"a kind":                 {Query{From: 1, Kinds: created}, pick(0, 2, 3, 6, 8)},
		"a kind, midway":         {Query{From: events.SeqOf(3, 1), Kinds: created}, pick(6, 8)},
		"types, kinds":           {Query{From: 1, Types: []events.Type{"", "resize"}, Kinds: []events.Kind{events.KindCreated, events.KindOwned}}, pick(2, 6, 7)},
		"an id":                  {Query{From: 1, ID: logtest.ID(1)}, pick(1, 4)},
		"an id and a kind":       {Query{From: 1, ID: logtest.ID(0), Kinds: created, Types: []events.Type{"email"}}, pick(0, 3, 8)},
		"since long ago":         {Query{Since: logtest.Time}, all},
		"since long ago, a type": {Query{Since: logtest.Time, Types: []events.Type{"resize"}}, pick(2, 6)},
		"since the third frame":  {Query{Since: storedAt(t, l, 3)}, all[3:]},
		"since the last frame":   {Query{Since: storedAt(t, l, 6)}, all[8:]},
		"since later":            {Query{Since: time.Now().Add(time.Hour)}, nil},
		"from the end":           {Query{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := paged(t, p, c.q); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	var behind *eventlog.BehindError
	if _, err := p.Read(logtest.Context(t), Query{From: events.SeqOf(99, 0)}, nil); !errors.As(err, &behind) || behind.Last != 6 {
		t.Errorf("past the end: %v", err)
	}
	for q, want := range map[*Query]string{
		{From: 1, Limit: 4}:                       "3.1", // the next of the same frame
		{From: 1, Limit: 8}:                       "6.0", // the next that there is
		{From: 1, ID: logtest.ID(2), MaxBytes: 1}: "7.0", // all was looked at
	} {
		page, err := p.Read(logtest.Context(t), *q, nil)
		if err != nil || at(page.Next) != want || page.More != (want != "7.0") || page.First != 0 {
			t.Errorf("%+v: the next page begins at %s, more %v, %v; want %s", q, at(page.Next), page.More, err, want)
		}
	}
}

// storedAt is the server's time of a frame.
func storedAt(t *testing.T, l *rig, seq uint64) time.Time {
	t.Helper()
	js, err := jetstream.New(l.nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(logtest.Context(t), "WORK_EVENTS_0")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(logtest.Context(t), seq)
	if err != nil {
		t.Fatal(err)
	}
	return m.Time
}

// A frame that can't be read ends a page that has events, and fails the next.
func TestPagesStopAtCorruption(t *testing.T) {
	l := newRig(t)
	l.add(t, 0, logtest.Decision(2, "a"))
	m := message(t, logtest.Decision(2, "torn"))
	l.inject(t, m.Header, m.Data[:len(m.Data)/2])
	p := NewReader(l.dial(t), wire.Default, atEnd(2), nil)
	page, err := p.Read(logtest.Context(t), Query{From: 1}, nil)
	if err != nil || len(page.Events) != 2 || !page.More {
		t.Fatalf("the first page: %+v, %v", page, err)
	}
	if _, err := p.Read(logtest.Context(t), Query{From: page.Next}, nil); !errors.Is(err, events.ErrCorrupt) {
		t.Errorf("the next page: %v, want ErrCorrupt", err)
	}
}

// A page that begins before the cut says where the log begins now; a position of the
// filter's event is read all the same.
func TestPagesBehindACut(t *testing.T) {
	l := newRig(t)
	rare := logtest.Decision(1, "rare")
	rare[0].Type = "rare"
	last := uint64(0)
	for i := range 30 {
		evs := logtest.Decision(2, "many")
		if i == 20 {
			evs = append(evs, rare...)
		}
		last = l.add(t, last, evs) // the rare one is 21.2
	}
	if err := l.Purge(logtest.Context(t), 10); err != nil {
		t.Fatal(err)
	}
	p := NewReader(l.dial(t), wire.Default, atEnd(last), nil)
	page, err := p.Read(logtest.Context(t), Query{From: 1, Limit: 3}, nil)
	if err != nil || at(page.First) != "10.0" || len(page.Events) != 3 || at(page.Events[0].Seq) != "10.0" || at(page.Next) != "11.1" {
		t.Errorf("from the start: %+v, %v", page, err)
	}
	if page, err = p.Read(logtest.Context(t), Query{From: page.Next, Limit: 1}, nil); err != nil || page.First != 0 || at(page.Events[0].Seq) != "11.1" {
		t.Errorf("the page behind it: %+v, %v", page, err)
	}
	q := Query{From: 1, Types: []events.Type{"rare"}}
	if page, err = p.Read(logtest.Context(t), q, nil); err != nil || at(page.First) != "10.0" || len(page.Events) != 1 || at(page.Events[0].Seq) != "21.2" || at(page.Next) != "31.0" {
		t.Errorf("a rare type, from the start: %+v, %v", page, err)
	}
	q.From = events.SeqOf(22, 0)
	if page, err = p.Read(logtest.Context(t), q, nil); err != nil || page.First != 0 || len(page.Events) != 0 || at(page.Next) != "31.0" {
		t.Errorf("a rare type, from behind it: %+v, %v", page, err)
	}
	if k, err := p.Kept(logtest.Context(t)); err != nil || k != (Kept{10, 30}) {
		t.Errorf("the log keeps %+v, %v", k, err)
	}
}

// Many who follow read, and decode, each frame once.
func TestFollowersShareFrames(t *testing.T) {
	const followers, frames, size = 20, 40, 100 << 10
	l := newRig(t)
	nc := l.dial(t)
	var last atomic.Uint64
	p := NewReader(nc, wire.Default, func() events.Seq { return events.SeqOf(last.Load(), 0) }, nil)
	var got [followers]chan string
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(logtest.Context(t))
	for i := range followers {
		got[i] = make(chan string, frames)
		all.Go(func() {
			if err := p.Tail(ctx, TailConfig{FromSeq: 1}, nil, func(ev events.Event) error { got[i] <- logtest.MarkOf(ev); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	before := nc.Stats().InBytes
	for i := range frames {
		mark := fmt.Sprint(i, strings.Repeat("x", size))
		last.Store(l.add(t, last.Load(), logtest.Decision(1, mark)))
		p.Grown()
		for _, c := range got {
			select {
			case m := <-c:
				if m != mark {
					t.Fatalf("got %.10s…, want %.10s…", m, mark)
				}
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
	}
	cancel()
	all.Wait()
	if read := nc.Stats().InBytes - before; read > 2*frames*size {
		t.Errorf("%d followers of %d bytes have read %d", followers, frames*size, read)
	}
}

// Who reads old frames page by page reads each of them once, though a page has but a part
// of what a get brings.
func TestOldFramesAreReadOnce(t *testing.T) {
	const frames, n = 12, 3000
	l := newRig(t)
	last, size := uint64(0), 0
	for range frames {
		done, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(n, "x")))
		if err != nil {
			t.Fatal(err)
		}
		last, size = last+1, size+len(done.Lines)
	}
	nc := l.dial(t)
	p := NewReader(nc, wire.Default, atEnd(last+KeepFrames), nil)
	before := nc.Stats().InBytes
	if got := paged(t, p, Query{From: 1}); len(got) != frames*n {
		t.Errorf("read %d events", len(got))
	}
	if read := int(nc.Stats().InBytes - before); read > size+size/2 {
		t.Errorf("it has read %d bytes for %d", read, size)
	}
}

// Who waits is told as soon as the log has grown, and reads each event once.
func TestPagesWait(t *testing.T) {
	l := newRig(t)
	var last atomic.Uint64
	last.Store(l.add(t, 0, logtest.Decision(1, "old")))
	p := NewReader(l.dial(t), wire.Default, func() events.Seq { return events.SeqOf(last.Load(), 0) }, nil)
	next := events.SeqOf(2, 0)
	page, err := p.Read(logtest.Context(t), Query{From: next, Wait: time.Millisecond}, nil)
	if err != nil || len(page.Events) != 0 || page.Next != next {
		t.Fatalf("%+v, %v", page, err)
	}
	got := make(chan string, 2)
	go func() {
		defer close(got)
		for next < events.SeqOf(3, 0) {
			page, err := p.Read(logtest.Context(t), Query{From: next, Limit: 1, Wait: logtest.Patience}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for _, ev := range page.Events {
				got <- at(ev.Seq)
			}
			next = page.Next
		}
	}()
	last.Store(l.add(t, 1, logtest.Decision(2, "new")))
	p.Grown()
	if a, b := <-got, <-got; a != "2.0" || b != "2.1" {
		t.Errorf("told %s and %s", a, b)
	}
}

// A server that has not got as far as is known is asked again, without being told that it has.
func TestPagesOfAReplicaThatLags(t *testing.T) {
	l := newRig(t)
	l.add(t, 0, logtest.Decision(1, "old"))
	p := NewReader(l.dial(t), wire.Default, atEnd(2), nil) // what the leader has
	looked := make(chan struct{}, 1)
	read := make(chan Page, 1)
	go func() {
		page, err := p.Read(logtest.Context(t), Query{From: events.SeqOf(2, 0), Wait: logtest.Patience}, func(context.Context) (func(), error) {
			return func() {
				select {
				case looked <- struct{}{}:
				default:
				}
			}, nil
		})
		if err != nil {
			t.Error(err)
		}
		read <- page
	}()
	<-looked
	l.add(t, 1, logtest.Decision(1, "new"))
	if page := <-read; len(page.Events) != 1 || at(page.Events[0].Seq) != "2.0" {
		t.Errorf("read %+v", page)
	}
}

// An empty log keeps nothing, new or cut.
func TestKeptOfAnEmptyLog(t *testing.T) {
	l := newRig(t)
	p := NewReader(l.nc, wire.Default, atEnd(0), nil)
	if k, err := p.Kept(logtest.Context(t)); err != nil || k != (Kept{1, 0}) {
		t.Errorf("a new log keeps %+v, %v", k, err)
	}
	last := l.addEach(t, 0, "a", "b")
	if err := l.Purge(logtest.Context(t), last+1); err != nil {
		t.Fatal(err)
	}
	if k, err := p.Kept(logtest.Context(t)); err != nil || k != (Kept{3, 2}) {
		t.Errorf("a log cut at its end keeps %+v, %v", k, err)
	}
}

// Someone who waits ends with his context.
func TestPagesEndWithTheContext(t *testing.T) {
	l := newRig(t)
	l.add(t, 0, logtest.Decision(1, "old"))
	p := NewReader(l.dial(t), wire.Default, atEnd(1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := p.Read(ctx, Query{From: events.SeqOf(2, 0), Wait: time.Hour}, func(context.Context) (func(), error) { return cancel, nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
