package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// nativeWorld is the server's side of native dispatching in a sim: a stream and
// the consumers' state.
type nativeWorld struct {
	msgs   map[uint64]*nativeSimMsg
	next   uint64
	paused map[events.Type]bool
	said   []ackmode.Word  // captured, for the next owner to hear again
	deaf   bool            // nothing that workers say is heard
	quiet  bool            // pushes are stored, and not answered
	acked  map[uint64]bool // captured acks
	reads  bool            // owners read what is said by themselves
}

// kill is the end of the server as well: its consumers forget some of what they
// have done last. As HoldNatives does, those rest when it is back.
func (n *nativeWorld) kill(forgets func() bool) {
	for _, m := range n.msgs {
		if forgets() {
			m.delivered, m.over = false, false
		}
		n.paused[m.typ] = true
	}
}

type nativeSimMsg struct {
	id        events.ID
	token     events.Token
	typ       events.Type
	at        time.Time
	lease     time.Duration
	delivered bool
	expires   time.Time
	over      bool // answered, or its lease has ended
}

func (w *world) PushNative(it *events.Item, _ []byte, token events.Token, lease time.Duration) {
	w.pushes++
	if w.down {
		w.signals.PushFailed(token)
		return
	}
	n := &w.native
	if n.msgs == nil {
		n.msgs, n.paused, n.next = map[uint64]*nativeSimMsg{}, map[events.Type]bool{}, 100
	}
	for seq, m := range n.msgs {
		if m.token == token {
			w.signals.PushedNative(token, seq)
			return
		}
	}
	n.next++
	n.msgs[n.next] = &nativeSimMsg{id: it.ID, token: token, typ: it.Type, at: w.now(), lease: lease}
	if !n.quiet {
		w.signals.PushedNative(token, n.next)
	}
}

func (w *world) DeleteNative(seq uint64) { delete(w.native.msgs, seq) }

func (w *world) CleanNative(floor uint64, ended []uint64) {
	for seq := range w.native.msgs {
		if seq < floor || slices.Contains(ended, seq) {
			delete(w.native.msgs, seq)
		}
	}
	w.signals.NativeCleaned()
}

func (w *world) EnsureNative(c ackmode.Consumer) {
	if w.native.paused == nil {
		w.native.paused = map[events.Type]bool{}
	}
	w.native.paused[c.Type] = c.Paused
	w.signals.NativeMade(c.Type)
}

func (w *world) WithdrawNative(c ackmode.Consumer, waiting []natsio.Stored) {
	w.EnsureNative(c)
	var looks []ackmode.Look
	for _, a := range bySeq(waiting) {
		if m := w.native.msgs[a.Seq]; m != nil && !m.delivered {
			delete(w.native.msgs, a.Seq)
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.TakenBack})
		}
	}
	w.signals.NativeLooks(looks)
}

// bySeq sorts what the loop has collected of a map: a run of the simulation follows from its
// seed.
func bySeq(all []natsio.Stored) []natsio.Stored {
	slices.SortFunc(all, func(a, b natsio.Stored) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Token, b.Token)) })
	return all
}

func (w *world) InspectNative(_ ackmode.Consumer, waiting []natsio.Stored) {
	var looks []ackmode.Look
	for _, a := range bySeq(waiting) {
		switch m := w.native.msgs[a.Seq]; {
		case m == nil:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Gone})
		case m.over:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Over})
		case m.delivered:
			looks = append(looks, ackmode.Look{Token: a.Token, Finding: ackmode.Delivered})
		}
	}
	w.signals.NativeLooks(looks)
}

func (w *world) LookUpNative(word ackmode.Word) {
	if m := w.native.msgs[word.Seq]; m != nil {
		word.Token = m.token
		w.signals.AckSignal(word)
	}
}

// nativePull is a native worker's pull: the delivery starts the lease.
func (w *world) nativePull(typ events.Type) (uint64, *nativeSimMsg) {
	for _, seq := range slices.Sorted(maps.Keys(w.native.msgs)) {
		if m := w.native.msgs[seq]; m.typ == typ && !m.delivered && !w.native.paused[typ] {
			m.delivered, m.expires = true, w.now().Add(m.lease)
			return seq, m
		}
	}
	return 0, nil
}

// nativeAnswer is what a native worker sends for a message, and the server's
// word on it.
func (w *world) nativeAnswer(seq uint64, kind core.AckSignal, delay time.Duration) {
	m := w.native.msgs[seq]
	if m == nil || m.over {
		return
	}
	if !m.delivered { // as far as the server knows: it takes no notice
		w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind, Raw: true, Delay: delay})
		return
	}
	m.over = kind != core.NativeSeen
	w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind, Raw: true, Delay: delay})
	if kind != core.NativeSeen {
		w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: kind})
	} else {
		m.expires = w.now().Add(m.lease)
	}
}

// say has a word captured, and heard.
func (w *world) say(word ackmode.Word) {
	if w.native.deaf {
		return
	}
	if word.Kind == core.NativeAck {
		if w.native.acked == nil {
			w.native.acked = map[uint64]bool{}
		}
		w.native.acked[word.Seq] = true
	}
	w.native.said = append(w.native.said, word)
	if !w.native.reads {
		w.signals.AckSignal(word)
	}
}

// adoptNatives is what a new owner finds, and hears.
func (w *world) adoptNatives(l *loop) error {
	for _, t := range l.state.TypeNames() {
		if set, _ := l.state.Settings(t); set.Native() {
			l.acked.on[t] = ackmode.Consumer{}
		}
	}
	var msgs []natsio.AckMsg
	for _, seq := range slices.Sorted(maps.Keys(w.native.msgs)) {
		m := w.native.msgs[seq]
		msgs = append(msgs, natsio.AckMsg{Seq: seq, At: m.at, ID: m.id, Token: m.token, Lease: m.lease})
	}
	if !w.native.reads {
		for _, word := range w.native.said {
			w.signals.AckSignal(word)
		}
		w.signals.NativeHeard()
	}
	return l.acked.adoptNativeMsgs(msgs, w.native.next)
}

// nextNativeExpiry is when the next lease of a native worker runs out, the zero
// time for never.
func (w *world) nextNativeExpiry() (next time.Time) {
	for _, m := range w.native.msgs {
		if m.delivered && !m.over {
			next = clock.Sooner(next, m.expires)
		}
	}
	return next
}

// expireNatives ends the leases that have run out.
func (w *world) expireNatives() {
	now := w.now()
	for _, seq := range slices.Sorted(maps.Keys(w.native.msgs)) {
		if m := w.native.msgs[seq]; m.delivered && !m.over && !m.expires.After(now) {
			m.over = true
			w.say(ackmode.Word{Seq: seq, Type: m.typ, Kind: core.NativeExpired})
		}
	}
}
