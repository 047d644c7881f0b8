package dispatcher

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// world is the server's side of dispatching, without a server: what is on its way to
// workers, and the streams of ack types, by the clock of a sim.
type world struct {
	now     func() time.Time
	signals *natsio.Signals // of the present ownership
	told    []string
	pushes  int // items sent to workers, or pushed
	purged  uint64
	purge   func(below uint64) error // cuts the log
	looked  func()                   // looks at the clock
	// sent holds what is on its way to workers.
	sent []*simRun
	// everSent holds the workers of all tokens that were ever sent.
	everSent map[events.Token]events.WorkerID
	down     bool // pushes of ack types fail
	acks     ackWorld
}

// simRun is an item on its way to a worker, or with it.
type simRun struct {
	worker   string
	session  string
	id       events.ID
	token    events.Token
	typ      events.Type
	lane     string
	attempt  int
	priority events.Priority
	left     wire.Left
}

func newWorld(now func() time.Time) *world {
	return &world{now: now, everSent: map[events.Token]events.WorkerID{}}
}

func (w *world) Assign(d *table.Dispatch, it *events.Item, _ []byte, left *wire.Left) {
	w.pushes++
	w.everSent[d.Token] = d.Worker
	w.sent = append(w.sent, &simRun{string(d.Worker), d.Session, it.ID, d.Token, it.Type, it.Lane(), int(it.Attempt), it.Priority, *left})
}

func (w *world) FlushAssigned() {}

func (w *world) Control(id events.WorkerID, c wire.Control) {
	switch {
	case len(c.Cancel) > 0:
		w.told = append(w.told, fmt.Sprintf("%s is told to cancel %d", id, len(c.Cancel)))
	case c.Register:
		w.told = append(w.told, fmt.Sprintf("%s is told to register again", id))
	}
}

func (w *world) PurgeIntake(through uint64) { w.purged = through }

func (w *world) LookAround() { w.looked() }

// take takes the first item on its way that a worker receives: one of a type (empty: any),
// sent to the present session of its worker. nil: there is none.
func (s *sim) take(typ events.Type) *simRun {
	for i, m := range s.world.sent {
		if (typ == "" || m.typ == typ) && m.session == s.session(m.worker) {
			s.world.sent = append(s.world.sent[:i:i], s.world.sent[i+1:]...)
			return m
		}
	}
	return nil
}

// report returns a worker's report of the run.
func (m *simRun) report(event string) wire.Report {
	return wire.Report{ID: m.id.String(), Token: m.token.String(), Worker: m.worker, Event: event}
}
