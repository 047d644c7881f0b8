package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// ackWorld is the server's side of ack dispatching in a sim: a stream and
// the consumers' state.
type ackWorld struct {
	msgs   map[uint64]*ackSimMsg
	next   uint64
	paused map[events.Type]bool
	said   []ackmode.Word  // captured, for the next owner to hear again
	deaf   bool            // nothing that workers say is heard
	quiet  bool            // pushes are stored, and not answered
	acked  map[uint64]bool // captured acks
	reads  bool            // owners read what is said by themselves
}

// kill is the end of the server as well: its consumers forget some of what they
// have done last. As HoldAcks does, those rest when it is back.
func (n *ackWorld) kill(forgets func() bool) {
	for _, m := range n.msgs {
		if forgets() {
			m.delivered, m.over = false, false
		}
		n.paused[m.typ] = true
	}
}

type ackSimMsg struct {
	id        events.ID
	token     events.Token
	typ       events.Type
	at        time.Time
	lease     time.Duration
	delivered bool
	expires   time.Time
	over      bool // answered, or its lease has ended
}

func (w *world) PushAck(d *table.Dispatch, it *events.Item, _ []byte) {
	token, lease := d.Token, d.Lease
	w.pushes++
	if w.down {
		w.signals.PushFailed(token)
		return
	}
	n := &w.acks
	if n.msgs == nil {
		n.msgs, n.paused, n.next = map[uint64]*ackSimMsg{}, map[events.Type]bool{}, 100
	}
	for seq, m := range n.msgs {
		if m.token == token {
			w.signals.Pushed(token, seq)
			return
		}
	}
	n.next++
	n.msgs[n.next] = &ackSimMsg{id: it.ID, token: token, typ: it.Type, at: w.now(), lease: lease}
	if !n.quiet {
		w.signals.Pushed(token, n.next)
	}
}

func (w *world) DeleteAck(seq uint64) { delete(w.acks.msgs, seq) }

func (w *world) CleanAcks(floor uint64, ended []uint64) {
	for seq := range w.acks.msgs {
		if seq < floor || slices.Contains(ended, seq) {
			delete(w.acks.msgs, seq)
		}
	}
	w.signals.AcksCleaned()
}

func (w *world) EnsureAck(c ackmode.Consumer) {
	if w.acks.paused == nil {
		w.acks.paused = map[events.Type]bool{}
	}
	w.acks.paused[c.Type] = c.Paused
	w.signals.AckMade(c.Type)
}

func (w *world) WithdrawAcks(c ackmode.Consumer, waiting []natsio.Stored) {
	w.EnsureAck(c)
	var looks []ackmode.Look
	for _, a := range bySeq(waiting) {
		if m := w.acks.msgs[a.Seq]; m != nil && !m.delivered {
			delete(w.acks.msgs, a.Seq)
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.TakenBack})
		}
	}
	w.signals.AckLooks(looks)
}

// bySeq sorts what the loop has collected of a map: a run of the simulation follows from its
// seed.
func bySeq(all []natsio.Stored) []natsio.Stored {
	slices.SortFunc(all, func(a, b natsio.Stored) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Token, b.Token)) })
	return all
}

func (w *world) InspectAcks(_ ackmode.Consumer, waiting []natsio.Stored) {
	var looks []ackmode.Look
	for _, a := range bySeq(waiting) {
		switch m := w.acks.msgs[a.Seq]; {
		case m == nil:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Gone})
		case m.over:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Over})
		case m.delivered:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Delivered})
		}
	}
	w.signals.AckLooks(looks)
}

func (w *world) LookUpAck(word ackmode.Word) {
	if m := w.acks.msgs[word.Seq]; m != nil {
		word.Token = m.token
		w.signals.AckSignal(word)
	}
}

// ackPull is an ack worker's pull: the delivery starts the lease.
func (w *world) ackPull(typ events.Type) (uint64, *ackSimMsg) {
	for _, seq := range slices.Sorted(maps.Keys(w.acks.msgs)) {
		if m := w.acks.msgs[seq]; m.typ == typ && !m.delivered && !w.acks.paused[typ] {
			m.delivered, m.expires = true, w.now().Add(m.lease)
			return seq, m
		}
	}
	return 0, nil
}

// ackAnswer is what an ack worker sends for a message, and the server's
// word on it.
func (w *world) ackAnswer(seq uint64, kind core.AckSignal, delay time.Duration) {
	m := w.acks.msgs[seq]
	if m == nil || m.over {
		return
	}
	if !m.delivered { // as far as the server knows: it takes no notice
		w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind, Raw: true, Delay: delay})
		return
	}
	m.over = kind != core.AckSeen
	w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind, Raw: true, Delay: delay})
	if kind != core.AckSeen {
		w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind})
	} else {
		m.expires = w.now().Add(m.lease)
	}
}

// say has a word captured, and heard.
func (w *world) say(word ackmode.Word) {
	if w.acks.deaf {
		return
	}
	if word.Kind == core.AckDone {
		if w.acks.acked == nil {
			w.acks.acked = map[uint64]bool{}
		}
		w.acks.acked[word.Seq] = true
	}
	w.acks.said = append(w.acks.said, word)
	if !w.acks.reads {
		w.signals.AckSignal(word)
	}
}

// adoptAcks is what a new owner finds, and hears.
func (w *world) adoptAcks(l *loop) error {
	for _, t := range l.state.TypeNames() {
		if set, _ := l.state.Settings(t); set.Ack() {
			l.acks.on[t] = ackmode.Consumer{}
		}
	}
	var msgs []natsio.AckMsg
	for _, seq := range slices.Sorted(maps.Keys(w.acks.msgs)) {
		m := w.acks.msgs[seq]
		msgs = append(msgs, natsio.AckMsg{Seq: seq, At: m.at, ID: m.id, Token: m.token, Lease: m.lease})
	}
	if !w.acks.reads {
		for _, word := range w.acks.said {
			w.signals.AckSignal(word)
		}
		w.signals.AcksHeard()
	}
	return l.acks.adoptMsgs(msgs, w.acks.next)
}

// nextAckExpiry is when the next lease of an ack worker runs out, the zero
// time for never.
func (w *world) nextAckExpiry() (next time.Time) {
	for _, m := range w.acks.msgs {
		if m.delivered && !m.over {
			next = clock.Sooner(next, m.expires)
		}
	}
	return next
}

// expireAcks ends the leases that have run out.
func (w *world) expireAcks() {
	now := w.now()
	for _, seq := range slices.Sorted(maps.Keys(w.acks.msgs)) {
		if m := w.acks.msgs[seq]; m.delivered && !m.over && !m.expires.After(now) {
			m.over = true
			w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: core.AckExpired})
		}
	}
}
