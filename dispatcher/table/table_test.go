package table

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// Whatever is done to a table, its indexes and counts are those of the dispatches that are in
// it, and the changes of a worker's runs that it tells of add up to what it holds.
func TestTheIndexesAreWhatIsDispatched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab, told := New(), map[Holder]int{}
		tab.Held.Counted = func(h Holder, by int) {
			if told[h] += by; told[h] == 0 {
				delete(told, h)
			}
		}
		in := map[events.Token]*Dispatch{}
		var gone []*Dispatch
		some := func(which string, of func(*Dispatch) bool) *Dispatch {
			var all []*Dispatch
			for d := range InOrder(in) {
				if of(d) {
					all = append(all, d)
				}
			}
			if len(all) == 0 {
				return nil
			}
			return rapid.SampledFrom(all).Draw(t, which)
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				d := drawDispatch(t, events.Token(i+1))
				if d.Seq != 0 { // as its owner does when the message is stored
					tab.BySeq[d.Seq] = d
				}
				tab.Add(d)
				in[d.Token] = d
			case 2:
				if d := some("claimed", func(*Dispatch) bool { return true }); d != nil {
					was := *d
					tab.Claim(d, "late", noon)
					if !d.Claimed || !d.Heard.Equal(noon) || was.Claimed && d.Worker != was.Worker || !was.Claimed && d.Worker != "late" {
						t.Fatalf("claimed: %+v, before: %+v", d, was)
					}
				}
			case 3:
				if d := some("lingering", func(d *Dispatch) bool { return !d.Lingering }); d != nil {
					tab.Linger(d)
				}
			case 4:
				if d := some("inherited", func(d *Dispatch) bool { return d.Claimed }); d != nil {
					if tab.Inherit(d, "s9"); d.Session != "s9" || !d.Sent {
						t.Fatalf("inherited: %+v", d)
					}
				}
			case 5:
				if d := some("leased", func(*Dispatch) bool { return true }); d != nil {
					tab.Lease(d, noon)
				}
			case 6:
				if d := some("unleased", func(*Dispatch) bool { return true }); d != nil {
					tab.Unlease(d)
				}
			case 7:
				if d := some("removed", func(*Dispatch) bool { return true }); d != nil {
					tab.Remove(d)
					delete(in, d.Token)
					gone = append(gone, d)
				}
			}
			for _, d := range gone { // nothing happens
				tab.Remove(d)
			}
			check(t, tab, in, told)
		}
	})
}

func drawDispatch(t *rapid.T, tok events.Token) *Dispatch {
	d := &Dispatch{
		ID: events.ID{15: rapid.ByteRange(1, 4).Draw(t, "id")}, Token: tok, Priority: events.Priority(rapid.IntRange(0, 1).Draw(t, "priority")),
		Type:  events.Type(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "type")),
		Group: rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group"), Claimed: rapid.Bool().Draw(t, "claimed"), Leased: rapid.Bool().Draw(t, "leased"),
	}
	if d.Claimed {
		d.Worker, d.Session = events.WorkerID(rapid.SampledFrom([]string{"w", "v"}).Draw(t, "worker")), "s1"
	}
	if d.Ack = !d.Claimed; d.Ack {
		d.Seq = uint64(rapid.IntRange(0, 3).Draw(t, "seq"))
	}
	return d
}

// check compares a table with what a look at all dispatches gives.
func check(t *rapid.T, tab *Table, in map[events.Token]*Dispatch, told map[Holder]int) {
	want := New()
	for tok, d := range in {
		want.ByToken[tok] = d
		if d.Ack {
			want.Acks[tok] = d
		}
		if d.Leased {
			want.Leased[tok] = d
		}
		if d.Lingering {
			want.Lingering[tok] = d
		}
		load := Load{All: 1}
		if !d.Claimed {
			load.Unclaimed = 1
		}
		add(want.ByType, d.Type, load)
		if d.Group != "" {
			add(want.ByGroup, GroupKey{d.Type, d.Group}, load)
		}
		if d.Claimed {
			want.Held.By[Holder{d.Type, d.Worker, d.Session}]++
			want.Held.Rungs[Rung{d.Type, d.Priority}]++
		}
	}
	if tab.Total() != len(in) || !maps.Equal(tab.ByToken, want.ByToken) || !maps.Equal(tab.Acks, want.Acks) || !maps.Equal(tab.Leased, want.Leased) || !maps.Equal(tab.Lingering, want.Lingering) {
		t.Fatalf("%d dispatches: %v\nwant %v", tab.Total(), tab, want)
	}
	if !maps.Equal(tab.ByType, want.ByType) || !maps.Equal(tab.ByGroup, want.ByGroup) {
		t.Fatalf("loads %v %v, want %v %v", tab.ByType, tab.ByGroup, want.ByType, want.ByGroup)
	}
	if !maps.Equal(tab.Held.By, want.Held.By) || !maps.Equal(tab.Held.Rungs, want.Held.Rungs) || !maps.Equal(told, want.Held.By) {
		t.Fatalf("held %v %v, told %v, want %v %v", tab.Held.By, tab.Held.Rungs, told, want.Held.By, want.Held.Rungs)
	}
	for id, d := range tab.ByID {
		if in[d.Token] != d || d.ID != id || d.Lingering || tab.Current(id) != d.Token {
			t.Fatalf("item %s has the dispatch %+v", id, d)
		}
	}
	for seq, d := range tab.BySeq {
		if in[d.Token] != d || d.Seq != seq {
			t.Fatalf("message %d has the dispatch %+v", seq, d)
		}
	}
}

// An item's last dispatch is the current one, and stays it when an earlier one goes.
func TestCurrent(t *testing.T) {
	tab, id := New(), events.ID{1}
	first, second := &Dispatch{ID: id, Token: 1}, &Dispatch{ID: id, Token: 2}
	want := func(tok events.Token) {
		t.Helper()
		if got := tab.Current(id); got != tok {
			t.Fatalf("the current dispatch is %d, want %d", got, tok)
		}
	}
	want(0)
	tab.Add(first)
	want(1)
	tab.Linger(first)
	want(0)
	tab.Add(second)
	want(2)
	tab.Remove(first)
	want(2)
	tab.Remove(second)
	want(0)
}

// A message that was sent again belongs to the last dispatch of its sequence.
func TestRemoveLeavesTheMessageOfAnother(t *testing.T) {
	tab := New()
	first, second := &Dispatch{ID: events.ID{1}, Token: 1, Ack: true, Seq: 7}, &Dispatch{ID: events.ID{2}, Token: 2, Ack: true, Seq: 7}
	tab.Add(first)
	tab.Add(second)
	tab.BySeq[7] = second
	if tab.Remove(first); tab.BySeq[7] != second {
		t.Fatalf("message 7: %+v", tab.BySeq[7])
	}
	if tab.Remove(second); len(tab.BySeq) != 0 {
		t.Fatalf("messages are left: %v", tab.BySeq)
	}
}

func TestLeaseFrom(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct {
		d    Dispatch
		want time.Time
	}{
		{Dispatch{At: at(1)}, at(1)},
		{Dispatch{At: at(1), Heard: at(3)}, at(3)},
		{Dispatch{At: at(1), Heard: at(3), KeptFrom: at(5)}, at(5)},
		{Dispatch{At: at(4), Heard: at(3), KeptFrom: at(2)}, at(4)},
	} {
		if got := c.d.LeaseFrom(); !got.Equal(c.want) {
			t.Errorf("%+v: %s, want %s", c.d, got, c.want)
		}
	}
}

func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		d    Dispatch
		want bool
	}{
		{Dispatch{Ack: true, Seq: 1}, true},
		{Dispatch{Ack: true}, false},
		{Dispatch{Ack: true, Seq: 1, Claimed: true}, false},
		{Dispatch{Ack: true, Seq: 1, Lingering: true}, false},
	} {
		if got := c.d.Unseen(); got != c.want {
			t.Errorf("%+v: %v", c.d, got)
		}
	}
}

func TestOrder(t *testing.T) {
	m, want := map[events.Token]*Dispatch{}, []events.Token{}
	for i := range 50 {
		tok := events.Token(1 + i*7%50)
		m[tok] = &Dispatch{Token: tok}
		want = append(want, events.Token(i+1))
	}
	tokens := func(all []*Dispatch) (list []events.Token) {
		for _, d := range all {
			list = append(list, d.Token)
		}
		return list
	}
	if got := tokens(slices.Collect(InOrder(m))); !slices.Equal(got, want) {
		t.Errorf("in order: %v", got)
	}
	if got := tokens(Sorted(slices.Collect(maps.Values(m)))); !slices.Equal(got, want) {
		t.Errorf("sorted: %v", got)
	}
	var seen []events.Token
	for d := range InOrder(m) {
		if seen = append(seen, d.Token); d.Token == 10 {
			delete(m, 11) // it is removed meanwhile
		}
		if d.Token == 13 {
			break
		}
	}
	if !slices.Equal(seen, append(slices.Clone(want[:10]), 12, 13)) {
		t.Errorf("with one removed: %v", seen)
	}
}
