package dispatcher

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// world is the server's side of dispatching, without a server: the dispatch
// stream with its consumers and leases, by the clock of a sim.
type world struct {
	now     func() time.Time
	signals *natsio.Signals // of the present ownership
	msgs    map[uint64]*simMsg
	nextSeq uint64
	down    bool // pushes fail
	silent  bool // pushes are not answered, and lost
	told    []string
	// consumers are those of the dispatch stream.
	consumers map[lanes.Key]bool
	ackWaits  map[lanes.Key]time.Duration // of those that have been made; others go by the message
	pushes    int
	purged    uint64
	purge     func(below uint64) error // cuts the log
	looked    func()                   // looks at the clock
	// deaf: expired leases are not told.
	deaf   bool
	native nativeWorld
	// sent holds what is on its way to workers' inboxes.
	sent []simAssigned
	// everSent holds the workers of all tokens that were ever sent to an inbox.
	everSent map[events.Token]events.WorkerID
}

// simAssigned is an assigned item on its way to its worker.
type simAssigned struct {
	worker  events.WorkerID
	inbox   string
	id      events.ID
	token   events.Token
	attempt int
}

// simMsg is a message of the dispatch stream.
type simMsg struct {
	seq       uint64
	id        events.ID
	token     events.Token
	key       lanes.Key
	attempt   int
	priority  events.Priority
	lease     time.Duration
	ackWait   time.Duration // of its consumer, by which expires is counted
	delivered bool
	expires   time.Time
	expired   bool
}

func newWorld(now func() time.Time) *world {
	return &world{now: now, msgs: map[uint64]*simMsg{}, nextSeq: 1, consumers: map[lanes.Key]bool{}, ackWaits: map[lanes.Key]time.Duration{}, everSent: map[events.Token]events.WorkerID{}}
}

func (w *world) Push(it *events.Item, _ []byte, token events.Token, lease time.Duration, lane string) {
	w.pushes++
	switch {
	case w.down:
		w.signals.PushFailed(token)
		return
	case w.silent:
		return
	}
	w.msgs[w.nextSeq] = &simMsg{seq: w.nextSeq, id: it.ID, token: token, key: lanes.Key{Type: it.Type, Name: lane}, attempt: int(it.Attempt) + 1, priority: it.Priority, lease: lease}
	w.signals.Pushed(token, w.nextSeq)
	w.nextSeq++
}

func (w *world) Assign(d *table.Dispatch, it *events.Item, _ []byte) {
	w.everSent[d.Token] = d.Worker
	w.sent = append(w.sent, simAssigned{d.Worker, d.Inbox, it.ID, d.Token, int(it.Attempt)})
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

func (w *world) DeleteMsg(seq uint64) { delete(w.msgs, seq) }

func (w *world) EnsureConsumer(key lanes.Key, lease time.Duration, tell bool) {
	w.consumers[key], w.ackWaits[key] = true, lease
	for _, m := range w.msgs { // a consumer's ack-wait hits what is already pending
		if m.key == key && m.delivered && !m.expired {
			m.expires, m.ackWait = m.expires.Add(lease-m.ackWait), lease
		}
	}
	if tell {
		w.told = append(w.told, fmt.Sprintf("lane %q of %s is made: its workers are told to register again", key.Name, key.Type))
	}
}

func (w *world) Repair() {}

func (w *world) DropConsumer(key lanes.Key) { delete(w.consumers, key) }

func (w *world) FindConsumers() { w.signals.ConsumersFound(slices.Collect(maps.Keys(w.consumers))) }

func (w *world) PurgeIntake(through uint64) { w.purged = through }

func (w *world) LookAround(live map[events.Token]bool, newest events.Token) {
	w.looked()
	for seq, m := range w.msgs {
		if m.token <= newest && !live[m.token] {
			delete(w.msgs, seq)
		}
	}
}

func (w *world) Inspect(_ lanes.Key, waiting []natsio.Stored) {
	for _, a := range waiting {
		if m := w.msgs[a.Seq]; m == nil {
			w.signals.PushFailed(a.Token)
		} else if m.delivered {
			w.signals.MessageSpent(a.Token)
		}
	}
}

// pull is a worker's pull: the delivery starts the lease.
func (w *world) pull(key lanes.Key) *simMsg {
	for _, seq := range slices.Sorted(maps.Keys(w.msgs)) {
		if m := w.msgs[seq]; m.key == key && !m.delivered {
			m.delivered = true
			w.renew(m)
			return m
		}
	}
	return nil
}

// renew has a message's lease begin anew.
func (w *world) renew(m *simMsg) {
	if m.ackWait = w.ackWaits[m.key]; m.ackWait == 0 {
		m.ackWait = m.lease
	}
	m.expires = w.now().Add(m.ackWait)
}

// nextExpiry is when the next lease runs out, the zero time for never.
func (w *world) nextExpiry() (next time.Time) {
	for _, m := range w.msgs {
		if m.delivered && !m.expired {
			next = clock.Sooner(next, m.expires)
		}
	}
	return next
}

// expire tells of the leases that have run out.
func (w *world) expire() {
	now := w.now()
	for _, seq := range slices.Sorted(maps.Keys(w.msgs)) {
		if m := w.msgs[seq]; m.delivered && !m.expired && !m.expires.After(now) {
			m.expired = true
			if !w.deaf {
				w.signals.LeaseExpired(natsio.Expiry{ID: m.id, Token: m.token, Seq: m.seq})
			}
		}
	}
}
