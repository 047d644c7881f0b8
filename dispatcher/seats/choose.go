package seats

import (
	"slices"
	"strings"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/events"
)

// Choose returns the seat for an item of a lane, nil if none has a slot free. by is the
// type's [events.TypeSettings.AssignBy].
//
//   - most_free: the seat with the most free slots; of equals, the one that was last given
//     an item the longest ago.
//   - round_robin: the next seat in the order of the workers' names that has a slot free.
//   - tenant, label:NAME: the seat that a hash of the item's value puts first, of those
//     that have a slot free. Items without a value go to the seat with the most free slots.
func (s *Seats) Choose(key lanes.Key, by string, it *events.Item) (seat *Seat) {
	r := s.row(key)
	if r.free <= 0 {
		return nil
	}
	switch by {
	case "", events.AssignMostFree:
		seat = r.mostFree()
	case events.AssignRoundRobin:
		seat = r.inTurn()
	default:
		if value := events.ValueOf(by, it.Tenant, it.Labels); value != "" {
			seat = r.nearest(value)
		} else {
			seat = r.mostFree()
		}
	}
	s.turns++
	seat.turn = s.turns
	return seat
}

// mostFree returns the seat with the most free slots. REQUIRES: one is free.
func (r *row) mostFree() (best *Seat) {
	most := 0
	for _, seat := range r.seats {
		left := seat.leftOf(r.typ)
		if left > most || left > 0 && left == most && seat.turn < best.turn {
			best, most = seat, left
		}
	}
	return best
}

// inTurn returns the next seat after the last one chosen that has a slot free. REQUIRES: one is
// free.
func (r *row) inTurn() *Seat {
	at, found := slices.BinarySearchFunc(r.seats, r.last, func(seat *Seat, w events.WorkerID) int {
		return strings.Compare(string(seat.Worker), string(w))
	})
	if found {
		at++
	}
	for r.seats[at%len(r.seats)].leftOf(r.typ) == 0 {
		at++
	}
	seat := r.seats[at%len(r.seats)]
	r.last = seat.Worker
	return seat
}

// nearest returns the seat with a slot free that has the highest weight for a value:
// rendezvous hashing (Thaler and Ravishankar, 1998). So a worker that comes or goes, or has
// no slot free, changes the choice for its own values only. REQUIRES: one is free.
func (r *row) nearest(value string) (best *Seat) {
	most, of := uint64(0), hash(value)
	for _, seat := range r.seats {
		if weight := mix(seat.hash ^ of); (best == nil || weight > most) && seat.leftOf(r.typ) > 0 {
			best, most = seat, weight
		}
	}
	return best
}

// hash is FNV-1a, mixed. It is the same in every process, so that values keep their workers
// when the owner changes.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads each bit over all: the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
