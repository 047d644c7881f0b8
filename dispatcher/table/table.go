package table

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/events"
)

// Dispatch is an item with a worker, or on its way to one.
type Dispatch struct {
	ID       events.ID
	Token    events.Token
	Type     events.Type
	Group    string // empty: none
	Priority events.Priority
	At       time.Time
	Lease    time.Duration // lease that its worker was told; 0: not known

	Claimed   bool
	Worker    events.WorkerID
	Session   string // of the worker that it was claimed for; empty: an earlier owner sent it, or its type is an ack type
	Sent      bool   // it was sent to that session
	Lingering bool   // the item has moved on, and the worker has not let go yet

	// Leased says that the loop keeps its lease, by what it hears of the worker. The lease
	// of a message of an ack type is kept by its consumer, unless the message is gone.
	Leased   bool
	Heard    time.Time // when its worker last started it or named it in a heartbeat; zero: not known
	KeptFrom time.Time // its lease is granted anew from then, whoever was heard; zero: it was not

	Ack      bool          // it went to the dispatch stream
	Seq      uint64        // its message's sequence there; 0: not known
	After    uint64        // its message's sequence is higher than this
	Again    bool          // its message was sent more than once
	Word     *ackmode.Word // what its worker has sent
	Over     time.Time     // when its message was first found to be over without news; zero: it was not
	Answered bool          // its worker has nothing more to do with the message
}

// Unseen reports whether the message of an ack type is stored, and no worker is known to
// have it.
func (d *Dispatch) Unseen() bool { return d.Seq != 0 && !d.Claimed && !d.Lingering }

// LeaseFrom returns the time from which its lease counts.
func (d *Dispatch) LeaseFrom() time.Time { return clock.Later(clock.Later(d.Heard, d.KeptFrom), d.At) }

// GroupKey identifies a group of a type's items.
type GroupKey struct {
	Type  events.Type
	Group string
}

func (d *Dispatch) group() GroupKey { return GroupKey{Type: d.Type, Group: d.Group} }

// Load counts dispatches. Those that are not claimed are on their way: only ack types
// have any.
type Load struct{ All, Unclaimed int }

// Table holds the dispatches.
type Table struct {
	ByID      map[events.ID]*Dispatch // an item's current dispatch
	ByToken   map[events.Token]*Dispatch
	ByType    map[events.Type]Load
	ByGroup   map[GroupKey]Load // without the empty group
	Leased    map[events.Token]*Dispatch
	Lingering map[events.Token]*Dispatch
	Held      Held
	Acks      map[events.Token]*Dispatch
	BySeq     map[uint64]*Dispatch // of Acks, by their message's sequence
}

// New returns an empty Table.
func New() *Table {
	return &Table{
		ByID: map[events.ID]*Dispatch{}, ByToken: map[events.Token]*Dispatch{},
		ByType: map[events.Type]Load{}, ByGroup: map[GroupKey]Load{},
		Leased: map[events.Token]*Dispatch{}, Lingering: map[events.Token]*Dispatch{}, Held: NewHeld(),
		Acks: map[events.Token]*Dispatch{}, BySeq: map[uint64]*Dispatch{},
	}
}

// Total returns how many items are dispatched.
func (t *Table) Total() int { return len(t.ByToken) }

// Add adds a dispatch.
func (t *Table) Add(d *Dispatch) {
	t.ByID[d.ID] = d
	t.ByToken[d.Token] = d
	if d.Ack {
		t.Acks[d.Token] = d
	}
	if d.Claimed {
		t.Held.Count(d, 1)
	}
	t.count(d, 1, !d.Claimed)
	if d.Leased {
		t.Leased[d.Token] = d
	}
}

// Remove removes a dispatch, which frees its slot.
func (t *Table) Remove(d *Dispatch) {
	if t.ByToken[d.Token] != d {
		return
	}
	delete(t.ByToken, d.Token)
	delete(t.Leased, d.Token)
	delete(t.Lingering, d.Token)
	delete(t.Acks, d.Token)
	if t.BySeq[d.Seq] == d {
		delete(t.BySeq, d.Seq)
	}
	if t.ByID[d.ID] == d {
		delete(t.ByID, d.ID)
	}
	if d.Claimed {
		t.Held.Count(d, -1)
	}
	t.count(d, -1, !d.Claimed)
}

// count updates the counts that limits use.
func (t *Table) count(d *Dispatch, by int, unclaimed bool) {
	more := Load{All: by}
	if unclaimed {
		more.Unclaimed = by
	}
	add(t.ByType, d.Type, more)
	if d.Group != "" {
		add(t.ByGroup, d.group(), more)
	}
}

func add[K comparable](loads map[K]Load, k K, more Load) {
	load := loads[k]
	load.All += more.All
	load.Unclaimed += more.Unclaimed
	if loads[k] = load; load == (Load{}) {
		delete(loads, k)
	}
}

// Claim notes that a worker runs the dispatch.
func (t *Table) Claim(d *Dispatch, w events.WorkerID, now time.Time) {
	if !d.Claimed {
		t.count(d, -1, true)
		d.Claimed, d.Worker = true, w
		t.count(d, 1, false)
		t.Held.Count(d, 1)
	}
	d.Heard = now
}

// Linger keeps a dispatch's slot, but no longer as the dispatch of its item.
func (t *Table) Linger(d *Dispatch) {
	d.Lingering = true
	t.Lingering[d.Token] = d
	if t.ByID[d.ID] == d {
		delete(t.ByID, d.ID)
	}
}

// Inherit notes to which session an earlier owner has sent a claimed dispatch.
func (t *Table) Inherit(d *Dispatch, session string) {
	t.Held.Count(d, -1)
	d.Session, d.Sent = session, true
	t.Held.Count(d, 1)
}

// Current returns the token of an item's dispatch, 0 for none.
func (t *Table) Current(id events.ID) events.Token {
	if d := t.ByID[id]; d != nil {
		return d.Token
	}
	return 0
}

// Lease has the loop keep the lease of a dispatch. It counts from a time.
func (t *Table) Lease(d *Dispatch, from time.Time) {
	d.Leased, d.KeptFrom = true, from
	t.Leased[d.Token] = d
}

// Unlease leaves the lease of a dispatch to its consumer.
func (t *Table) Unlease(d *Dispatch) {
	d.Leased = false
	delete(t.Leased, d.Token)
}
