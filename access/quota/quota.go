package quota

import (
	"fmt"
	"sync"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/events"
)

// Bounds of a Book.
const (
	// MaxUsers is the number of users that are counted at once. Beyond it, users
	// with nothing open and nothing to pay off are forgotten.
	MaxUsers = 10_000
	// Burst is the part of a rate that may be taken at once.
	Burst = time.Second
)

// Way is a user's way to the engine. Each way counts a name separately.
type Way uint8

// The ways.
const (
	HTTP    Way = iota + 1 // requests with a token or certificate
	NATS                   // requests of a NATS user
	Publish                // plain publishes of a NATS user
)

// Config says what a Book counts by.
type Config struct {
	Settings
	// All are the requests a second of everybody together; 0: no limit.
	All int
	// TypeExists reports whether there is a type already, so that nobody creates
	// it. It may read the store.
	TypeExists func(events.Type) bool
	// Refused, if set, hears of each refusal.
	Refused func(roles access.Roles, limit string)
	// Now, if set, is the clock.
	Now func() time.Time
}

// Book counts what users take. A nil Book has no limits. It is safe for
// concurrent use.
type Book struct {
	cfg Config

	mu    sync.Mutex
	users map[key]*User            // guarded by mu; at most MaxUsers
	known map[events.Type]struct{} // guarded by mu: types that exist; at most MaxTypes
	all   bucket                   // guarded by mu: requests of everybody
}

type key struct {
	way  Way
	name string
}

// New makes a Book; nil if the settings have no limit for it to count.
func New(cfg Config) *Book {
	counted := cfg.All > 0
	for _, l := range cfg.Roles {
		counted = counted || l.counted()
	}
	for _, l := range cfg.Users {
		counted = counted || l.counted()
	}
	if !counted {
		return nil
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Book{cfg: cfg, users: map[key]*User{}, known: map[events.Type]struct{}{}}
}

// User is one user on one way. A nil User has no limits. Its methods refuse with
// an *events.Error of the code quota_exceeded.
type User struct {
	book *Book
	name string

	// Guarded by Book.mu.
	roles    access.Roles
	limits   Limits
	items    bucket
	bytes    bucket
	requests bucket
	types    map[events.Type]*created // at most limits.Types
	waits    int
}

// User is the user of a name, with the roles that it has now; nil if it has no
// limits.
func (b *Book) User(way Way, name string, roles access.Roles) *User {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{way, name}
	u := b.users[k]
	if u != nil && u.roles == roles {
		return u
	}
	limits := b.cfg.Of(name, roles)
	switch {
	case !limits.counted():
		return nil
	case u == nil:
		b.makeRoom()
		u = &User{book: b, name: name, types: map[events.Type]*created{}}
		b.users[k] = u
	}
	u.roles, u.limits = roles, limits
	return u
}

// makeRoom forgets users without a count if there are too many. REQUIRES: mu.
func (b *Book) makeRoom() {
	if len(b.users) < MaxUsers {
		return
	}
	now := b.cfg.Now()
	for k, u := range b.users {
		if u.waits == 0 && !u.items.owes(now) && !u.bytes.owes(now) && !u.requests.owes(now) {
			delete(b.users, k)
		}
	}
	for k := range b.users {
		if len(b.users) < MaxUsers {
			return
		}
		delete(b.users, k)
	}
}

// bucket is a rate: what was taken, and is not paid off yet.
type bucket struct{ paid time.Time }

func (b *bucket) owes(now time.Time) bool { return b.paid.After(now) }

// wait returns the time until something may be taken again: until no more than Burst
// is left to pay off. So a request of any size gets through in the end, and the rate
// holds on average.
func (b *bucket) wait(now time.Time) time.Duration {
	if !b.owes(now) {
		return 0 // and no difference of times that are far apart
	}
	return max(b.paid.Sub(now)-Burst, 0)
}

// take takes n at a rate per second. REQUIRES: wait is 0, perSecond > 0.
func (b *bucket) take(now time.Time, n, perSecond int64) {
	if b.paid.Before(now) {
		b.paid = now
	}
	seconds := float64(n) / float64(perSecond)
	b.paid = b.paid.Add(time.Duration(min(seconds, maxDebt.Seconds()) * float64(time.Second)))
}

// maxDebt bounds what one request may leave to pay off.
const maxDebt = 24 * time.Hour

// Request counts a request.
func (u *User) Request() error {
	if u == nil {
		return nil
	}
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	return u.spend(u.book.cfg.Now(), charge{Requests, int64(of(u.limits.RequestsPerSecond)), 1, &u.requests})
}

// Submit counts a submission, or a batch of them.
func (u *User) Submit(items int, bytes int64) error {
	if u == nil {
		return nil
	}
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	return u.spend(u.book.cfg.Now(), charge{Items, int64(of(u.limits.ItemsPerSecond)), int64(items), &u.items}, charge{Bytes, of(u.limits.BytesPerSecond), bytes, &u.bytes})
}

// Took counts bytes whose number was not known when they were let in: they are
// paid off before the next.
func (u *User) Took(bytes int64) {
	if u == nil {
		return
	}
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	if most := of(u.limits.BytesPerSecond); most > 0 {
		u.bytes.take(u.book.cfg.Now(), bytes, most)
	}
}

// Request counts a request against the rate of everybody together. It refuses as the methods
// of a [User] do.
func (b *Book) Request() error {
	if b == nil || b.cfg.All <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Now()
	wait := b.all.wait(now)
	if wait <= 0 {
		b.all.take(now, 1, int64(b.cfg.All))
		return nil
	}
	if b.cfg.Refused != nil {
		b.cfg.Refused(0, Requests)
	}
	err := events.Refuse(events.CodeQuotaExceeded, "all users together are at the limit %s: they may make %d a second, and have made them: try again after retry_after_ms", Requests, b.cfg.All)
	err.RetryAfter = wait
	return err
}

// charge says how much one request takes of one rate.
type charge struct {
	limit     string
	perSecond int64 // 0: no limit
	n         int64
	from      *bucket
}

// spend takes all charges, or none. REQUIRES: Book.mu.
func (u *User) spend(now time.Time, charges ...charge) error {
	for _, c := range charges {
		if c.perSecond <= 0 {
			continue
		}
		if wait := c.from.wait(now); wait > 0 {
			err := u.refuse(c.limit, "it may take %d a second, and has taken them: try again after retry_after_ms", c.perSecond)
			err.RetryAfter = wait
			return err
		}
	}
	for _, c := range charges {
		if c.perSecond > 0 {
			c.from.take(now, c.n, c.perSecond)
		}
	}
	return nil
}

// refuse makes a refusal. REQUIRES: Book.mu.
func (u *User) refuse(limit, format string, args ...any) *events.Error {
	if u.book.cfg.Refused != nil {
		u.book.cfg.Refused(u.roles, limit)
	}
	return events.Refuse(events.CodeQuotaExceeded, "%s is at its quota %s: %s", u.name, limit, fmt.Sprintf(format, args...))
}

// created is a type that a user has created, or is about to create.
type created struct {
	undecided int // submissions
	accepted  bool
}

// Claim counts the type of a submission until that is decided. The zero Claim counts
// nothing.
type Claim struct {
	u *User
	t events.Type
}

// retryTypes is when to try again while submissions of new types are undecided.
const retryTypes = time.Second

// Type refuses a submission that would create one type too many. The caller tells the
// claim what became of the submission: a refused one creates no type.
func (u *User) Type(t events.Type) (Claim, error) {
	if u == nil || u.typeCounts(t) {
		return Claim{}, nil
	}
	exists := u.book.cfg.TypeExists != nil && u.book.cfg.TypeExists(t) // not under the lock: it may read the store
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	if exists {
		if len(u.book.known) >= MaxTypes {
			clear(u.book.known)
		}
		u.book.known[t] = struct{}{}
		return Claim{}, nil
	}
	if u.types[t] == nil {
		if most := of(u.limits.Types); len(u.types) >= most {
			return Claim{}, u.refuseType(t, most)
		}
		u.types[t] = &created{}
	}
	u.types[t].undecided++
	return Claim{u, t}, nil
}

// refuseType refuses a type too many. To wait helps only while a submission that counts may
// still be refused. REQUIRES: Book.mu.
func (u *User) refuseType(t events.Type, most int) error {
	err := u.refuse(Types, "it may create %d types, and %s would be one more: check its spelling, or have an operator configure it", most, t)
	for _, c := range u.types {
		if !c.accepted {
			err.RetryAfter = retryTypes
		}
	}
	return err
}

// Decided says whether the submission was accepted. Call it once.
func (c Claim) Decided(accepted bool) {
	if c.u == nil {
		return
	}
	c.u.book.mu.Lock()
	defer c.u.book.mu.Unlock()
	typ := c.u.types[c.t]
	typ.undecided--
	typ.accepted = typ.accepted || accepted
	if typ.undecided == 0 && !typ.accepted {
		delete(c.u.types, c.t)
	}
}

// typeCounts reports whether a type needs no look: there is no limit, or it is
// known to exist, or counts already.
func (u *User) typeCounts(t events.Type) bool {
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	_, known := u.book.known[t]
	mine := u.types[t]
	return of(u.limits.Types) == 0 || known || mine != nil && mine.accepted
}

// retryWaits is when to try again while a user's waits are open.
const retryWaits = time.Second

// Wait counts a wait, long poll or feed in. release counts it out, once however often
// it is called.
func (u *User) Wait() (release func(), err error) {
	if u == nil {
		return func() {}, nil
	}
	u.book.mu.Lock()
	defer u.book.mu.Unlock()
	if most := of(u.limits.Waits); most > 0 && u.waits >= most {
		err := u.refuse(Waits, "it may have %d open at once: end one first, or ask now and then instead", most)
		err.RetryAfter = retryWaits
		return nil, err
	}
	u.waits++
	return sync.OnceFunc(func() {
		u.book.mu.Lock()
		u.waits--
		u.book.mu.Unlock()
	}), nil
}
