// Package seats knows the workers that take assigned items, and how many more each can
// take.
//
// A [Seat] is a session of a worker: see wire.Register. Its runs are counted from their
// decision on, whoever made it, so that a worker is never sent more than it has slots
// for. A run counts until the worker has let go of it.
//
// Of the workers that have a slot free, a type's setting assign_by says who is given an
// item: see [Seats.Choose].
//
// Seats are volatile: they say who is given an item, never what an event means.
package seats

import (
	"cmp"
	"slices"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// Seat is a worker that takes assigned items.
type Seat struct {
	Worker  events.WorkerID
	Session string // new for each life of the worker
	Types   []string
	Offer   lanes.Offer
	Slots   int  // 0: it takes no new work now
	Benched bool // its circuit is not closed: it may begin no more runs than Trials
	Trials  int
	Most    map[string]int // of types that have a bound of their own
	// Offers says that it takes no more than it has offered; see Seats.Offered.
	Offers bool

	room    int  // offered, and not used yet
	offered bool // room is known: see Seats.Unknown
	runs    int
	ofType  map[string]int // runs of the types in Most
	turn    uint64         // of the last item that it was given
	resting bool           // it is given nothing before its next heartbeat, or offer
	rows    []*row
	hash    uint64 // of Worker
}

// row holds the seats that serve a lane.
type row struct {
	typ    string
	filled bool            // seats and free have been computed since the last Set
	seats  []*Seat         // by name
	free   int             // slots, of all seats
	last   events.WorkerID // whose turn was the last: see inTurn
}

// Seats holds the seats. It is not safe for concurrent use.
type Seats struct {
	by    map[events.WorkerID]*Seat
	rows  map[lanes.Key]*row
	free  int // slots, of all seats
	turns uint64
	// shared says that a seat serves several types.
	shared bool
}

// New returns no seats.
func New() *Seats {
	return &Seats{by: map[events.WorkerID]*Seat{}, rows: map[lanes.Key]*row{}}
}

// maxRows bounds the lanes whose seats are remembered: users may ask about any lane.
const maxRows = 4096

// Set sets the seats, and returns the workers that have none any more, or another. runs
// calls fn with the runs of all workers.
func (s *Seats) Set(list []Seat, runs func(fn func(w events.WorkerID, session string, t events.Type, n int))) (left []events.WorkerID) {
	old, fresh := s.by, false
	s.by = make(map[events.WorkerID]*Seat, len(list))
	for _, r := range s.rows {
		r.filled, r.seats, r.free = false, nil, 0
	}
	for i := range list {
		seat := list[i]
		if was := old[seat.Worker]; was != nil {
			seat.turn = was.turn
			if was.Session == seat.Session {
				seat.resting, seat.room, seat.offered = was.resting, was.room, was.offered
			}
		} else {
			fresh = true
		}
		seat.hash = hash(string(seat.Worker))
		seat.ofType = make(map[string]int, len(seat.Most))
		s.by[seat.Worker] = &seat
	}
	for w, was := range old {
		if now := s.by[w]; now == nil || now.Session != was.Session {
			left = append(left, w)
		}
	}
	if len(s.by) > 0 || fresh {
		runs(func(w events.WorkerID, session string, t events.Type, n int) {
			if seat := s.by[w]; seat != nil && seat.counts(session) {
				seat.count(string(t), n)
			}
		})
	}
	s.free, s.shared = 0, false
	for _, seat := range s.by {
		s.free += seat.left()
		s.shared = s.shared || len(seat.Types) > 1
	}
	slices.Sort(left)
	return left
}

// Of returns a worker's seat, nil for none.
func (s *Seats) Of(w events.WorkerID) *Seat { return s.by[w] }

// Holds reports whether a worker has a seat under a session.
func (s *Seats) Holds(w events.WorkerID, session string) bool {
	seat := s.by[w]
	return seat != nil && seat.Session == session
}

// Count adds by, 1 or -1, to the runs that a session of a worker was given; empty: that an
// earlier owner has given it. It ignores workers without a seat, and
// the runs of their earlier lives: those take no slot of the present one.
func (s *Seats) Count(w events.WorkerID, session string, t events.Type, by int) {
	seat := s.by[w]
	if seat == nil || !seat.counts(session) {
		return
	}
	s.change(seat, func() { seat.count(string(t), by) })
}

// Offered sets how many more items a worker takes, and reports whether that is more than
// before. It takes up to so many of its free slots, and each item that is sent uses one. A
// worker that offers does not rest.
func (s *Seats) Offered(w events.WorkerID, room int) (more bool) {
	seat := s.by[w]
	if seat == nil || !seat.Offers {
		return false
	}
	before := seat.left()
	s.change(seat, func() { seat.offered, seat.room, seat.resting = true, room, false })
	return seat.left() > before
}

// Unknown reports whether the worker says what it takes and has not said it yet, as far as
// is known: it may have told an earlier owner.
func (s *Seats) Unknown(w events.WorkerID) bool {
	seat := s.by[w]
	return seat != nil && seat.Offers && !seat.offered
}

// Use takes one of what a seat has offered.
func (s *Seats) Use(seat *Seat) {
	if seat.Offers || seat.Benched {
		s.change(seat, func() {
			seat.room--
			seat.Trials--
		})
	}
}

// Rest has a worker be given nothing before it is heard of again.
func (s *Seats) Rest(w events.WorkerID) { s.rest(w, true) }

// Heard notes a worker's heartbeat, and reports whether it had rested.
func (s *Seats) Heard(w events.WorkerID) bool { return s.rest(w, false) }

func (s *Seats) rest(w events.WorkerID, resting bool) bool {
	seat := s.by[w]
	if seat == nil || seat.resting == resting {
		return false
	}
	s.change(seat, func() { seat.resting = resting })
	return true
}

// change changes what a seat has free.
func (s *Seats) change(seat *Seat, fn func()) {
	for _, r := range seat.rows {
		r.free -= seat.leftOf(r.typ)
	}
	s.free -= seat.left()
	fn()
	s.free += seat.left()
	for _, r := range seat.rows {
		r.free += seat.leftOf(r.typ)
	}
}

func (seat *Seat) counts(session string) bool { return session == "" || session == seat.Session }

func (seat *Seat) count(typ string, by int) {
	seat.runs += by
	if _, bound := seat.Most[typ]; bound {
		seat.ofType[typ] += by
	}
}

// Resting reports whether the worker is given nothing before it is heard of again.
func (seat *Seat) Resting() bool { return seat.resting }

// left returns how many more items a seat can take.
func (seat *Seat) left() int {
	if seat.resting {
		return 0
	}
	left := seat.Slots - seat.runs
	if seat.Offers {
		left = min(left, seat.room)
	}
	if seat.Benched {
		left = min(left, seat.Trials)
	}
	return max(left, 0)
}

// leftOf returns how many more items of a type a seat can take.
func (seat *Seat) leftOf(typ string) int {
	if len(seat.Most) == 0 { // an access to an empty map would take as long as all the rest
		return seat.left()
	}
	if most, bound := seat.Most[typ]; bound {
		return max(min(seat.left(), most-seat.ofType[typ]), 0)
	}
	return seat.left()
}

// row returns the seats that serve a lane.
func (s *Seats) row(key lanes.Key) *row {
	r := s.rows[key]
	if r == nil {
		if len(s.rows) >= maxRows {
			s.forgetRows()
		}
		r = &row{typ: string(key.Type)}
		s.rows[key] = r
	}
	if r.filled {
		return r
	}
	r.filled = true
	for _, seat := range s.by {
		if slices.Contains(seat.Types, r.typ) && seat.Offer.Covers(key.Name) {
			r.seats, r.free = append(r.seats, seat), r.free+seat.leftOf(r.typ)
			seat.rows = append(seat.rows, r)
		}
	}
	slices.SortFunc(r.seats, func(a, b *Seat) int { return cmp.Compare(a.Worker, b.Worker) })
	return r
}

func (s *Seats) forgetRows() {
	clear(s.rows)
	for _, seat := range s.by {
		seat.rows = nil
	}
}

// Free returns how many items of a lane can be assigned now.
func (s *Seats) Free(key lanes.Key) int {
	if len(s.by) == 0 {
		return 0
	}
	return s.row(key).free
}

// Shared reports whether a seat serves several types.
func (s *Seats) Shared() bool { return s.shared }

// FreeAll returns how many items can be assigned now, of all types.
func (s *Seats) FreeAll() int { return s.free }
