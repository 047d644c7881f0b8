package backup_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A frame of an owner that another has succeeded, which the log has taken in all the same,
// is passed over by everyone who reads the log: the owner that comes behind it, the live feed,
// tails from before and from there, verify, a backup, and what is restored from one.
func TestAStaleFrameIsPassedOver(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	url := natsServer(t).ClientURL()
	nc := dial(t, url)
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	first := start(t, t.TempDir(), onNATS(url))
	ids := submit(t, client(t, first), "job", 2)
	stop(t, first)
	stream := wire.Default.EventStream(0)
	last, err := js.GetLastMsg(stream, wire.Default.Frame(0))
	if err != nil {
		t.Fatal(err)
	}
	told := map[events.Seq]bool{}
	feed, err := nc.SubscribeSync("work.event.>")
	if err != nil {
		t.Fatal(err)
	}

	e := start(t, t.TempDir(), onNATS(url))
	c := client(t, e)
	ids = append(ids, submit(t, c, "job", 2)...)
	last.Header.Del(nats.ExpectedLastSeqHdr)
	ack, err := js.PublishMsg(&nats.Msg{Subject: last.Subject, Header: last.Header, Data: last.Data})
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, submit(t, c, "job", 2)...) // the owner takes over again behind it
	verify(t, c)
	for len(told) < 5 { // owned, and two items
		m, err := feed.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		at, err := events.ParseSeq(m.Header.Get(wire.HeaderPosition))
		if err != nil || at.Frame() == ack.Sequence {
			t.Fatal("the feed tells", m.Header, err)
		}
		told[at] = true
	}

	o := originalOf(t, url)
	m, err := o.store.Meta()
	if err != nil || !slices.Equal(m.Stale, []uint64{ack.Sequence}) {
		t.Fatalf("the store has passed over %d, %v; want %d", m.Stale, err, ack.Sequence)
	}
	var want []events.Seq
	for _, ev := range o.all(t) {
		if ev.Seq.Frame() != ack.Sequence {
			want = append(want, ev.Seq)
		}
	}
	if uint64(len(want)) != m.Events {
		t.Errorf("the store has %d events, and the log %d without the stale frame", m.Events, len(want))
	}
	for _, from := range []events.Seq{1, events.SeqOf(ack.Sequence, 0), events.SeqOf(ack.Sequence, 1)} {
		i, _ := slices.BinarySearch(want, from)
		if got := tailed(t, c, from, want[len(want)-1]); !slices.Equal(got, want[i:]) {
			t.Errorf("a tail from %d shows %d, want %d", from, got, want[i:])
		}
	}

	dir := filepath.Join(t.TempDir(), "b")
	take(t, c, dir)
	if got := check(t, dir); got.Stale != 1 || got.Events != int64(m.Events) {
		t.Errorf("the backup has %+v, want %d events and 1 stale frame", got, m.Events)
	}
	r := client(t, start(t, restore(t, dir).Dir))
	verify(t, r)
	if got := slices.Sorted(maps.Keys(states(t, r))); !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
		t.Errorf("restored: %q, want %q", got, ids)
	}
}

// tailed returns the positions of the events from one to another.
func tailed(t *testing.T, c *streamwright.Client, from, to events.Seq) (got []events.Seq) {
	t.Helper()
	done := errors.New("done")
	ctx, cancel := context.WithTimeout(testContext(t), patience)
	defer cancel()
	err := c.Tail(ctx, streamwright.TailOptions{FromSeq: from}, func(ev streamwright.Event) error {
		if got = append(got, ev.Seq); ev.Seq >= to {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	return got
}
