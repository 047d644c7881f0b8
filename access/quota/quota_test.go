package quota

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) book(s Settings) *Book {
	return New(Config{Settings: s, Now: func() time.Time { return c.now }})
}

func n[T int | int64](v T) *T { return &v }

func submitters(l Limits) Settings {
	return Settings{Roles: map[access.Role]Limits{access.Submit: l}}
}

const submit = access.Roles(access.Submit)

// refusedFor fails unless err is a refusal by quota, and returns its wait.
func refusedFor(t *testing.T, err error) time.Duration {
	t.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code != events.CodeQuotaExceeded || e.Message == "" {
		t.Fatalf("got %v, want a refusal by quota", err)
	}
	return e.RetryAfter
}

// A rate holds in the mean, whatever the batches, and RetryAfter is exact.
func TestRates(t *testing.T) {
	for _, batch := range []int{1, 7, 1000} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			c := newClock()
			u := c.book(submitters(Limits{ItemsPerSecond: n(10)})).User(NATS, "ann", submit)
			start, taken := c.now, 0
			for c.now.Sub(start) < time.Hour {
				err := u.Submit(batch, 1)
				if err == nil {
					taken += batch
					continue
				}
				wait := refusedFor(t, err)
				c.now = c.now.Add(wait - time.Nanosecond)
				if refusedFor(t, u.Submit(batch, 1)) != time.Nanosecond {
					t.Fatal("it may be tried again before retry_after")
				}
				c.now = c.now.Add(time.Nanosecond)
			}
			if most := int(c.now.Sub(start).Seconds()+1)*10 + batch; taken > most || taken < most-2*batch-20 {
				t.Fatalf("%d items in %s at 10 a second", taken, c.now.Sub(start))
			}
		})
	}
}

// A submission that one rate refuses takes nothing of the other.
func TestAllOrNothing(t *testing.T) {
	c := newClock()
	u := c.book(submitters(Limits{ItemsPerSecond: n(1000), BytesPerSecond: n(int64(10))})).User(NATS, "ann", submit)
	if err := u.Submit(1, 100); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		refusedFor(t, u.Submit(1, 1))
	}
	c.now = c.now.Add(9 * time.Second)
	if err := u.Submit(1, 0); err != nil {
		t.Fatalf("what was refused has been counted: %v", err)
	}
	u.Took(100)
	refusedFor(t, u.Submit(1, 0))
}

func TestUsersAreApart(t *testing.T) {
	c := newClock()
	b := c.book(submitters(Limits{RequestsPerSecond: n(1), Waits: n(2), Types: n(1)}))
	for _, u := range []*User{b.User(NATS, "ann", submit), b.User(NATS, "bob", submit), b.User(HTTP, "ann", submit)} {
		if err := errors.Join(u.Request(), u.Request(), createType(u, "a")); err != nil {
			t.Fatal(err)
		}
		if refusedFor(t, u.Request()) != time.Second {
			t.Fatal("of a rate of one a second the next comes in a second")
		}
		refusedFor(t, createType(u, "b"))
		if err := createType(u, "a"); err != nil {
			t.Fatal(err)
		}
		first, err := u.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Wait(); err != nil {
			t.Fatal(err)
		}
		_, err = u.Wait()
		refusedFor(t, err)
		first()
		first()
		if _, err := u.Wait(); err != nil {
			t.Fatal(err)
		}
		_, err = u.Wait()
		refusedFor(t, err)
	}
}

// createType submits an item of a type, which is accepted.
func createType(u *User, typ events.Type) error {
	claim, err := u.Type(typ)
	claim.Decided(err == nil)
	return err
}

// A refused submission creates no type. One that is undecided counts, and to wait may help
// then; of several of one type, one that is accepted creates it.
func TestTypesOfRefusedSubmissions(t *testing.T) {
	u := newClock().book(submitters(Limits{Types: n(2)})).User(NATS, "ann", submit)
	claim := func(typ events.Type) Claim {
		t.Helper()
		c, err := u.Type(typ)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, typ := range []events.Type{"a", "b", "c", "d"} {
		claim(typ).Decided(false)
	}
	first, second, other := claim("a"), claim("a"), claim("b")
	if refusedFor(t, createType(u, "c")) == 0 {
		t.Error("to wait helps if an undecided submission is refused")
	}
	first.Decided(true)
	second.Decided(false)
	other.Decided(false)
	claim("b").Decided(true)
	claim("a").Decided(false)
	if refusedFor(t, createType(u, "c")) != 0 {
		t.Error("to wait does not help")
	}
	if len(u.types) != 2 {
		t.Errorf("%d types count, 2 were created", len(u.types))
	}
}

// However many submit at once, no more than the limit are created, and those that are
// refused leave nothing behind.
func TestTypesAtOnce(t *testing.T) {
	u := newClock().book(submitters(Limits{Types: n(5)})).User(NATS, "ann", submit)
	var all sync.WaitGroup
	var accepted atomic.Int64
	for i := range 64 {
		all.Go(func() {
			for j := range 200 {
				claim, err := u.Type(events.Type(fmt.Sprintf("t%d", (i+j)%40)))
				if err != nil {
					continue
				}
				claim.Decided(i%8 == 0)
				if i%8 == 0 {
					accepted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if accepted.Load() == 0 || len(u.types) > 5 {
		t.Errorf("%d accepted, %d types count", accepted.Load(), len(u.types))
	}
	for typ, c := range u.types {
		if c.undecided != 0 || !c.accepted {
			t.Errorf("type %s counts as %+v", typ, c)
		}
	}
}

// A type that exists is nobody's.
func TestTypes(t *testing.T) {
	asked := 0
	b := New(Config{Settings: submitters(Limits{Types: n(1)}), TypeExists: func(typ events.Type) bool { asked++; return typ == "there" }})
	u := b.User(HTTP, "ann", submit)
	for range 3 {
		if err := errors.Join(createType(u, "there"), createType(u, "mine")); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 2 {
		t.Fatalf("%d looks for two types", asked)
	}
	if refusedFor(t, createType(u, "more")) != 0 {
		t.Error("to wait does not help")
	}
}

// A user's own limit wins over its roles', of those the more generous counts,
// and 0 is none.
func TestWhichLimitCounts(t *testing.T) {
	s := Settings{
		Roles: map[access.Role]Limits{
			access.Submit: {ItemsPerSecond: n(10), Waits: n(5), Connections: n(3)}, access.Read: {Waits: n(50), Connections: n(0)}, access.Operate: {ItemsPerSecond: n(0)},
		},
		Users: map[string]Limits{"ann": {Waits: n(7)}, "root": {ItemsPerSecond: n(0), Waits: n(0), Connections: n(0)}},
	}
	for _, c := range []struct {
		name        string
		roles       access.Roles
		items       int
		waits, conn int
	}{
		{"bob", submit, 10, 5, 3},
		{"bob", access.RolesOf(access.Submit, access.Read), 10, 50, 0},
		{"bob", access.RolesOf(access.Submit, access.Operate), 0, 5, 3},
		{"bob", access.RolesOf(access.Work), 0, 0, 0},
		{"ann", access.RolesOf(access.Submit, access.Read), 10, 7, 0},
		{"root", submit, 0, 0, 0},
	} {
		l := s.Of(c.name, c.roles)
		if of(l.ItemsPerSecond) != c.items || of(l.Waits) != c.waits || of(l.Connections) != c.conn {
			t.Errorf("%s with %s: items %d, waits %d, connections %d; want %+v", c.name, c.roles, of(l.ItemsPerSecond), of(l.Waits), of(l.Connections), c)
		}
	}
	b := newClock().book(s)
	if b.User(NATS, "root", submit) != nil || b.User(NATS, "bob", submit) == nil || b.User(NATS, "bob", access.RolesOf(access.Work)) != nil {
		t.Error("only who has limits is counted")
	}
	if New(Config{Settings: Settings{Roles: map[access.Role]Limits{access.Work: {Connections: n(5)}}}}) != nil {
		t.Error("what the server counts needs no book")
	}
	if got := s.Of("bob", submit).Account(); got != (access.AccountLimits{Connections: 3}) {
		t.Errorf("%+v", got)
	}
}

// The book is bounded, and forgets first those who owe nothing.
func TestUsersAreBounded(t *testing.T) {
	c := newClock()
	b := c.book(submitters(Limits{RequestsPerSecond: n(1)}))
	busy := b.User(NATS, "busy", submit)
	for range 5 {
		_ = busy.Request()
	}
	for i := range 3 * MaxUsers {
		b.User(NATS, fmt.Sprint(i), submit)
		if len(b.users) > MaxUsers {
			t.Fatalf("%d users", len(b.users))
		}
	}
	refusedFor(t, b.User(NATS, "busy", submit).Request())
}

// Nothing set is nothing refused, and nothing counted.
func TestNoQuotas(t *testing.T) {
	b := New(Config{})
	u := b.User(NATS, "ann", access.All)
	release, err := u.Wait()
	if b != nil || u != nil || errors.Join(err, u.Request(), u.Submit(1e6, 1e12), createType(u, "a")) != nil {
		t.Fatal("an engine without quotas counts")
	}
	u.Took(5)
	release()
}

func FuzzRate(f *testing.F) {
	f.Add(int64(10), int64(1000), int64(5))
	f.Add(int64(1), int64(1)<<62, int64(1)<<62)
	f.Fuzz(func(t *testing.T, perSecond, amount, later int64) {
		if perSecond <= 0 || amount < 0 {
			return
		}
		now := newClock().now
		var b bucket
		b.take(now, amount, perSecond)
		then := now.Add(time.Duration(max(later, 0)))
		wait := b.wait(then)
		if wait < 0 || wait > maxDebt {
			t.Fatalf("%d at %d a second: a wait of %s", amount, perSecond, wait)
		}
		if b.wait(then.Add(wait)) != 0 || wait > 0 && b.wait(then.Add(wait-1)) == 0 {
			t.Fatalf("%d at %d a second: a wait of %s is not exact", amount, perSecond, wait)
		}
	})
}
