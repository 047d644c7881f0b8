package dispatcher

import (
	"fmt"
	"strings"

	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/seats"
	"github.com/streamwright/streamwright/events"
)

// receive tells what has been sent to workers. They have it, unless it is lost.
func (st *story) receive(lost bool) string {
	var b strings.Builder
	for _, a := range st.world.sent {
		fmt.Fprintf(&b, "%s gets %s, attempt %d\n", a.worker, st.name(a.id), a.attempt)
		if !lost {
			st.held[st.name(a.id)] = a
		}
	}
	if b.Len() == 0 {
		b.WriteString("nothing is sent\n")
	}
	st.world.sent = nil
	return b.String()
}

// seatsConsistent compares the seats with the table: what they count as free, and that
// nobody has more than its slots.
func (s *sim) seatsConsistent() error {
	want := seats.New()
	list := s.reg.Seats()
	want.Set(list, func(fn func(events.WorkerID, string, events.Type, int)) {
		for _, d := range s.l.table.ByToken {
			if d.Claimed {
				fn(d.Worker, d.Session, d.Type, 1)
			}
		}
	})
	key := lanes.Key{Type: "email"}
	resting := false
	for _, seat := range list {
		got := s.l.assigner.seats.Of(seat.Worker)
		if got == nil || got.Session != seat.Session {
			return fmt.Errorf("worker %s has no seat, or another's", seat.Worker)
		}
		resting = resting || got.Resting()
	}
	have, should := s.l.assigner.seats.Free(key), want.Free(key)
	if have != should && !(resting && have < should) {
		return fmt.Errorf("the seats have %d slots free, should have %d", have, should)
	}
	return nil
}
