package eventlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// queue is the simplest Simulation: what waits lets everything else happen.
type queue struct {
	now  time.Time
	rand *rand.Rand
	due  []moment // in order
}

type moment struct {
	at time.Time
	fn func()
}

func (q *queue) Now() time.Time   { return q.now }
func (q *queue) Rand() *rand.Rand { return q.rand }

func (q *queue) After(d time.Duration, fn func()) {
	m := moment{q.now.Add(d), fn}
	i, _ := slices.BinarySearchFunc(q.due, m, func(a, b moment) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1
	})
	q.due = slices.Insert(q.due, i, m)
}

func (q *queue) Wait(d time.Duration, done func() bool) bool {
	for end := q.now.Add(d); !done(); {
		if q.due[0].at.After(end) {
			q.now = end
			break
		}
		m := q.due[0]
		q.due = q.due[1:]
		q.now = m.at
		m.fn()
	}
	return done()
}

func newReplicas(n int) (*logtest.Replicas, *queue) {
	q := &queue{now: time.Now(), rand: rand.New(rand.NewPCG(1, 2))}
	c := logtest.NewReplicas(q, n)
	q.Wait(time.Minute, func() bool { return c.Leader() >= 0 })
	return c, q
}

// cutOff cuts the leader off from the others, and waits until those have a leader too.
func cutOff(t *testing.T, c *logtest.Replicas, q *queue) (old int) {
	t.Helper()
	old = c.Leader()
	for i := range 3 {
		if i != old {
			c.Cut(old, i, true)
			c.Cut(i, old, true)
		}
	}
	if !q.Wait(time.Minute, func() bool { return c.Leader() != old }) {
		t.Fatal("no server is elected while the deposed leader does not know")
	}
	return old
}

// A leader that was cut off says where the log ended when it was, but nothing is stored by
// it, and Confirm does not believe it.
func TestDeposedLeader(t *testing.T) {
	c, q := newReplicas(3)
	ctx := logtest.Context(t)
	before := c.Open(c.Leader())
	last := mustAppend(t, before, 0, logtest.Decision(2, "a"))
	old := cutOff(t, c, q)
	after := c.Open((old + 1) % 3)
	now := mustAppend(t, after, last, logtest.Decision(1, "b"))
	if tip, err := before.Last(ctx); err != nil || tip.Seq != last {
		t.Fatalf("the deposed leader says %+v, %v, want the end at %d", tip, err, last)
	}
	if _, err := before.Confirm(ctx); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("confirmed by a deposed leader: %v, want ErrUnreachable", err)
	}
	if tip, err := after.Confirm(ctx); err != nil || tip.Seq != now || tip.First != 1 {
		t.Fatalf("confirmed %+v, %v, want the end at %d", tip, err, now)
	}
	for i := range 3 {
		c.Cut(old, i, false)
		c.Cut(i, old, false)
	}
	if err := before.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Append(ctx, last, logtest.Write(logtest.Decision(1, "lost"))); !errors.Is(err, ErrFenced) && !errors.Is(err, ErrAmbiguous) {
		t.Fatalf("append by the old end: %v", err)
	}
	if got := readAll(t, after); !slices.Equal(got.marks, []string{"a", "a", "b"}) {
		t.Fatalf("read %v", got.marks)
	}
}

// What a leader has taken in without the others' agreement is gone when they have another
// leader, and kept if that one has it.
func TestUnansweredAppend(t *testing.T) {
	for _, has := range []bool{false, true} {
		t.Run(fmt.Sprint(has), func(t *testing.T) {
			c, q := newReplicas(3)
			l := c.Open(c.Leader())
			last := mustAppend(t, l, 0, logtest.Decision(1, "a"))
			old := c.Leader()
			for i := range 3 { // the others hear it, or not; it hears nobody
				c.Cut(old, i, !has && i != old)
				c.Cut(i, old, i != old)
			}
			if _, err := l.Append(logtest.Context(t), last, logtest.Write(logtest.Decision(2, "b"))); !errors.Is(err, ErrAmbiguous) {
				t.Fatalf("append without the others: %v, want ErrAmbiguous", err)
			}
			for i := range 3 {
				c.Cut(old, i, i != old)
			}
			other := c.Open((old + 1) % 3)
			q.Wait(time.Minute, func() bool { return c.Leader() >= 0 && c.Leader() != old })
			want := []string{"a"}
			if has {
				want = []string{"a", "b", "b"}
			}
			var got []string
			_, err := Settle(logtest.Context(t), other, 0, ownedBarrier("me"), func(f Frame) error {
				got = append(got, marksOf(f.Events)...)
				return nil
			})
			if err != nil || !slices.Equal(got, append(want, "owned:me")) {
				t.Fatalf("settled on %v, %v, want %v", got, err, want)
			}
		})
	}
}
