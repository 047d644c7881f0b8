package feed

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { leaks.Check(m) }

const patience = 30 * time.Second

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s := natscluster.Alone(t, 0)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// run has a feed tell until the test ends.
func run(t *testing.T, f *Feed) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// Each event of a frame is told on its subject, with its position and that of the one before,
// also if that one is not told, as nobody subscribes to it.
func TestTell(t *testing.T) {
	nc := connect(t)
	sub, err := nc.SubscribeSync("work.event.3.>")
	if err != nil {
		t.Fatal(err)
	}
	f := New(Config{Conn: nc, Names: wire.Default, Partition: 3, Heard: func(subject string) bool { return subject != "work.event.3.email.claimed" }})
	run(t, f)
	f.Tell(5, 9, []Name{{"email", events.KindCreated}, {"email", events.KindClaimed}, {"resize", events.KindQueued}}, []byte("one\ntwo\nthree\n"))
	f.Tell(6, events.SeqOf(5, 2), []Name{{"email", events.KindCreated}}, []byte("four\n"))
	at := events.SeqOf
	for _, want := range []struct {
		subject, line       string
		position, afterwhat events.Seq
	}{
		{"work.event.3.email.created", "one", at(5, 0), 9},
		{"work.event.3.resize.queued", "three", at(5, 2), at(5, 1)},
		{"work.event.3.email.created", "four", at(6, 0), at(5, 2)},
	} {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		position, previous := m.Header.Get(wire.HeaderPosition), m.Header.Get(wire.HeaderPrevious)
		if m.Subject != want.subject || string(m.Data) != want.line || position != fmt.Sprint(uint64(want.position)) || previous != fmt.Sprint(uint64(want.afterwhat)) {
			t.Errorf("%s %q at %s, after %s; want %+v", m.Subject, m.Data, position, previous, want)
		}
	}
}

// Who subscribes is asked once a frame for each subject: one who comes between two frames
// hears the second.
func TestSubscribersAreAskedForEachFrame(t *testing.T) {
	nc := connect(t)
	sub, err := nc.SubscribeSync("work.event.0.>")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	f := New(Config{Conn: nc, Names: wire.Default, Heard: func(string) bool { asked++; return asked > 1 }})
	name := Name{"email", events.KindCreated}
	for seq, lines := range []string{"one\ntwo\n", "three\nfour\n"} {
		f.tell(frame{seq: uint64(seq + 1), names: []Name{name, name}, lines: []byte(lines)})
	}
	for _, want := range []string{"three", "four"} {
		if m, err := sub.NextMsg(patience); err != nil || string(m.Data) != want {
			t.Fatalf("heard %+v, %v, want %s", m, err, want)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for two frames", asked)
	}
}

// Tell never waits: what finds no room is not told, and its room is not lost.
func TestTellDoesNotWait(t *testing.T) {
	name := []Name{{"email", events.KindCreated}}
	t.Run("bytes", func(t *testing.T) {
		f := New(Config{})
		half := bytes.Repeat([]byte{'x'}, maxWaiting/2)
		for seq := range uint64(2) {
			f.Tell(seq+1, 0, name, half)
		}
		f.Tell(3, 0, name, []byte("x"))
		if n := len(f.in); n != 2 {
			t.Fatalf("%d frames wait", n)
		}
	})
	t.Run("frames", func(t *testing.T) {
		told := make(chan struct{}, maxFrames+1)
		f := New(Config{Names: wire.Default, Heard: func(string) bool { told <- struct{}{}; return false }})
		line := bytes.Repeat([]byte{'x'}, maxWaiting/(2*maxFrames))
		for seq := range uint64(3 * maxFrames) { // their bytes would not have room
			f.Tell(seq+1, 0, name, line)
		}
		if n := len(f.in); n != maxFrames {
			t.Fatalf("%d frames wait", n)
		}
		run(t, f)
		for range maxFrames {
			<-told
		}
		// The room is given back after a frame is told: by the last but one at least.
		if room := int64(maxWaiting - len(line)); !f.budget.TryAcquire(room) {
			t.Fatal("room is lost")
		}
	})
}

// The subjects that a Feed remembers are bounded.
func TestSubjects(t *testing.T) {
	f := New(Config{Names: wire.Default, Partition: 1})
	for i := range maxSubjects + 10 {
		typ := fmt.Sprintf("t%d", i)
		for range 2 {
			if got, want := f.subject(Name{events.Type(typ), events.KindQueued}).text, "work.event.1."+typ+".queued"; got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		if n := len(f.subjects); n > maxSubjects {
			t.Fatalf("%d subjects are remembered", n)
		}
	}
}
