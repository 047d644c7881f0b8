package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

func dialTail(t *testing.T, s *server.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// tailed runs a tail that is not live, and lists what it gives.
func tailed(t *testing.T, nc *nats.Conn, cfg TailConfig) []string {
	t.Helper()
	var got []string
	err := Tail(testContext(t), nc, cfg, func(ev events.Event) error {
		got = append(got, fmt.Sprintf("%d:%s:%s", ev.Seq, ev.Kind, markOf(ev)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTailFilters(t *testing.T) {
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
	mustAppend(t, l, last, decision(3, "b"))                    // 7, 8, 9
	f.inject(t, "work.event.0.email.created", "", []byte("hm")) // 10
	for _, c := range []struct {
		name string
		cfg  TailConfig
		want []string
	}{
		{"all", TailConfig{}, []string{"1:created:a", "2:queued:a", "3:created:o", "6:owned:owned:me", "7:created:b", "8:queued:b", "9:queued:b"}},
		{"from the middle of a decision", TailConfig{FromSeq: 8}, nil},
		{"from a position", TailConfig{FromSeq: 3}, []string{"3:created:o", "6:owned:owned:me", "7:created:b", "8:queued:b", "9:queued:b"}},
		{"past the end", TailConfig{FromSeq: 99}, nil},
		{"a kind", TailConfig{Kinds: []events.Kind{events.KindCreated}}, []string{"1:created:a", "3:created:o", "7:created:b"}},
		{"a kind, midway", TailConfig{FromSeq: 4, Kinds: []events.Kind{events.KindQueued}}, []string{"8:queued:b", "9:queued:b"}},
		{"a type", TailConfig{Types: []events.Type{"resize"}}, []string{"3:created:o"}},
		{"the partition's", TailConfig{Types: []events.Type{""}}, []string{"6:owned:owned:me"}},
		{"types and kinds", TailConfig{Types: []events.Type{"", "email"}, Kinds: []events.Kind{events.KindCreated, events.KindOwned}}, []string{"1:created:a", "6:owned:owned:me", "7:created:b"}},
		{"an id", TailConfig{ID: testID(1)}, []string{"2:queued:a", "8:queued:b"}},
		{"nothing", TailConfig{Types: []events.Type{"none"}}, nil},
		{"since long ago", TailConfig{Since: testTime, Types: []events.Type{"resize"}}, []string{"3:created:o"}},
		{"since later", TailConfig{Since: time.Now().Add(time.Hour)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tailed(t, nc, c.cfg); !slices.Equal(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestTailLive follows appends, filtered and not, over a broken connection.
func TestTailLive(t *testing.T) {
	for name, kinds := range map[string][]events.Kind{"all": nil, "filtered": {events.KindCreated, events.KindQueued}} {
		t.Run(name, func(t *testing.T) {
			f := newServerFixture(false)(t).(*serverFixture)
			nc := dialTail(t, f.s)
			l := f.open(t, false, nil)
			last := mustAppend(t, l, 0, singles(3, "old"))
			ctx, cancel := context.WithCancel(testContext(t))
			got := make(chan string, 100)
			ended := make(chan error, 1)
			go func() {
				ended <- Tail(ctx, nc, TailConfig{Live: true, FromSeq: 3, Kinds: kinds}, func(ev events.Event) error {
					got <- fmt.Sprintf("%d:%s", ev.Seq, markOf(ev))
					return nil
				})
			}()
			expect := func(want ...string) {
				t.Helper()
				for _, w := range want {
					select {
					case g := <-got:
						if g != w {
							t.Fatalf("got %s, want %s", g, w)
						}
					case err := <-ended:
						t.Fatalf("the tail ended: %v", err)
					case <-time.After(testTimeout):
						t.Fatalf("no %s", w)
					}
				}
			}
			expect("3:old")
			last = mustAppend(t, l, last, decision(2, "new"))
			expect("4:new", "5:new")
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			// A group that waits for its end, then its end.
			f.fault(l, Fault{Kind: FaultLate, N: 1}, 2)
			if _, err := l.Append(testContext(t), last, decision(2, "late")); !errors.Is(err, ErrAmbiguous) {
				t.Fatal(err)
			}
			f.land()
			expect("6:late", "7:late")
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTailErrors(t *testing.T) {
	f := newServerFixture(false)(t).(*serverFixture)
	nc := dialTail(t, f.s)
	none := func(events.Event) error { return nil }
	if err := Tail(testContext(t), nc, TailConfig{}, none); err == nil {
		t.Fatal("a tail of a stream that does not exist")
	}
	l := f.open(t, false, nil)
	mustAppend(t, l, 0, singles(3, "a"))
	stop := errors.New("stop")
	if err := Tail(testContext(t), nc, TailConfig{}, func(events.Event) error { return stop }); err != stop {
		t.Fatal(err)
	}
	if err := Tail(testContext(t), nc, TailConfig{FromSeq: 1, Partitions: []int{0, 1}}, none); err == nil {
		t.Fatal("a position in two partitions")
	}
}
