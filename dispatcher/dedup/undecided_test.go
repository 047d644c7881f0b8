package dedup

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// noHook is a hook that is never asked.
type noHook struct{}

func (noHook) Judge(context.Context, Question) (events.Verdict, error) { return events.Verdict{}, nil }

func askedIDs(found []*asked) (ids []byte) {
	for _, a := range found {
		id, _ := events.ParseID(a.item.ID)
		ids = append(ids, id[15])
	}
	return ids
}

func numbered(n byte, t events.Type, key string) *core.Submit {
	return &core.Submit{Type: t, NewID: events.ID{15: n}, DedupKey: key}
}

func TestUndecidedSeeThoseBeforeThem(t *testing.T) {
	asker := New(context.Background(), Config{Hook: noHook{}}, nil, slog.New(slog.DiscardHandler), nil)
	u := &asker.undecided
	first := asker.Enter([]*core.Submit{numbered(1, "a", "x/1"), numbered(2, "a", "y/2"), numbered(3, "b", "")})
	second := asker.Enter([]*core.Submit{numbered(4, "a", "x/4"), numbered(5, "a", "x/5")})
	third := asker.Enter([]*core.Submit{{Type: "a", ID: events.ID{15: 4}}}) // the fourth once more
	for _, c := range []struct {
		of     *asked
		prefix string
		limit  int
		want   []byte
	}{
		{first.all[0], "", 9, nil},
		{first.all[1], "", 9, []byte{1}},
		{first.all[2], "", 9, nil},
		{second.all[1], "", 9, []byte{4, 2, 1}},
		{second.all[1], "", 2, []byte{4, 2}},
		{second.all[1], "x/", 9, []byte{4, 1}},
		{third.all[0], "", 9, []byte{5, 2, 1}},
	} {
		if got := askedIDs(u.before(c.of, c.prefix, c.limit)); !slices.Equal(got, c.want) {
			t.Errorf("before %s, keys %q, limit %d: %v, want %v", c.of.item.ID, c.prefix, c.limit, got, c.want)
		}
	}
	first.End()
	if got := askedIDs(u.before(second.all[1], "", 9)); !slices.Equal(got, []byte{4}) {
		t.Errorf("after the first have ended: %v", got)
	}
	second.End()
	third.End()
	if len(u.types) != 0 {
		t.Errorf("%d types are left", len(u.types))
	}
}

// A submission waits for the one that its verdict names, and not for ever.
func TestUndecidedAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := New(context.Background(), Config{Hook: noHook{}, Fallback: FallbackDistinct}, nil, slog.New(slog.DiscardHandler), nil)
		named := func() (first, second *Group) {
			first = j.Enter([]*core.Submit{numbered(1, "a", "")})
			second = j.Enter([]*core.Submit{numbered(2, "a", "")})
			a := second.all[0]
			a.submit.Verdict = &events.Verdict{Policy: events.DedupMerge, Canonical: events.ID{15: 1}}
			a.names = first.all[0]
			return first, second
		}
		first, second := named()
		go func() {
			time.Sleep(time.Second)
			first.Became(first.all[0].submit, events.ID{15: 9})
			first.End()
		}()
		start := time.Now()
		j.settle(context.Background(), second)
		if v := second.all[0].submit.Verdict; time.Since(start) != time.Second || v.Canonical != (events.ID{15: 9}) {
			t.Errorf("after %s: %+v", time.Since(start), v)
		}
		first, second = named()
		start = time.Now()
		j.settle(context.Background(), second)
		if v := second.all[0].submit.Verdict; time.Since(start) != maxUndecidedWait || v.Source != "fallback" {
			t.Errorf("after %s: %+v", time.Since(start), v)
		}
		first.End()
		second.End()
	})
}
