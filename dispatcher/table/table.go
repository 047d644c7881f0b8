package table

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/clock"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
)

// Dispatch is one sending of an item, from the push of its message until its
// worker has let go.
type Dispatch struct {
	ID    events.ID
	Token events.Token
	Type  events.Type
	Lane  string
	Group string // empty: none
	At    time.Time
	Lease time.Duration // lease that its worker was told; 0: not known
	// The item's priority and rank when it was dispatched.
	Priority  events.Priority
	Rank      readyq.Rank
	place     int // index in Waiting, counted from 1; 0: not in it
	Claimed   bool
	Worker    events.WorkerID
	Lingering bool      // the item has moved on, and the worker has not let go yet
	Inbox     string    // of the worker that it was assigned to; empty: it went to a lane, or an earlier owner sent it
	Sent      bool      // it was sent to the inbox
	Orphan    bool      // the message is gone, and the worker's heartbeats keep the lease
	Heard     time.Time // when its worker last claimed it, started it, or named it in a heartbeat; zero: not known
	KeptFrom  time.Time // its lease is granted anew from then, whoever was heard; zero: it was not
	Seq       uint64    // message's sequence in its stream; 0: not known
	Spent     time.Time // when the message was first seen delivered and not claimed

	Native   bool          // it went to the native stream
	Word     *ackmode.Word // what its native worker has sent
	Answered bool          // its native worker has nothing more to do with the message
	After    uint64        // a native message's sequence is higher than this
	Again    bool          // it was sent to the native stream more than once
}

// Unseen reports whether a native dispatch's message is stored, and no worker is known to
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

// GroupLoad counts the dispatches of a group.
type GroupLoad struct{ All, Unclaimed int }

// Table holds the dispatches.
type Table struct {
	ByID      map[events.ID]*Dispatch // an item's current dispatch
	ByToken   map[events.Token]*Dispatch
	ByType    map[events.Type]int
	ByLane    map[lanes.Key]int
	ByGroup   map[GroupKey]GroupLoad // without the empty group
	Unclaimed map[events.Type]int
	Orphans   map[events.Token]*Dispatch
	Lingering map[events.Token]*Dispatch
	Held      Held
	Natives   map[events.Token]*Dispatch
	BySeq     map[uint64]*Dispatch // native dispatches, by their message's sequence
	Waiting   Waiting              // unclaimed dispatches that can be taken back
}

// New returns an empty Table.
func New() *Table {
	return &Table{
		ByID: map[events.ID]*Dispatch{}, ByToken: map[events.Token]*Dispatch{},
		ByType: map[events.Type]int{}, ByLane: map[lanes.Key]int{}, ByGroup: map[GroupKey]GroupLoad{}, Unclaimed: map[events.Type]int{},
		Orphans: map[events.Token]*Dispatch{}, Lingering: map[events.Token]*Dispatch{}, Held: NewHeld(),
		Natives: map[events.Token]*Dispatch{}, BySeq: map[uint64]*Dispatch{},
	}
}

// Total returns how many items are dispatched.
func (t *Table) Total() int { return len(t.ByToken) }

// Add adds a dispatch.
func (t *Table) Add(d *Dispatch) {
	t.ByID[d.ID] = d
	t.ByToken[d.Token] = d
	t.ByType[d.Type]++
	t.ByLane[lanes.Key{Type: d.Type, Name: d.Lane}]++
	if d.Native {
		t.Natives[d.Token] = d
	}
	if d.Claimed {
		t.Held.Count(d, 1)
	} else if !d.Native {
		t.Waiting.add(d)
	}
	t.count(d, 1, !d.Claimed)
	if d.Orphan {
		t.Orphans[d.Token] = d
	}
}

// Remove removes a dispatch, which frees its slot.
func (t *Table) Remove(d *Dispatch) {
	if t.ByToken[d.Token] != d {
		return
	}
	delete(t.ByToken, d.Token)
	delete(t.Orphans, d.Token)
	delete(t.Lingering, d.Token)
	delete(t.Natives, d.Token)
	t.Waiting.remove(d)
	if t.BySeq[d.Seq] == d {
		delete(t.BySeq, d.Seq)
	}
	if t.ByID[d.ID] == d {
		delete(t.ByID, d.ID)
	}
	t.ByType[d.Type]--
	if key := (lanes.Key{Type: d.Type, Name: d.Lane}); t.ByLane[key] > 1 {
		t.ByLane[key]--
	} else {
		delete(t.ByLane, key)
	}
	if d.Claimed {
		t.Held.Count(d, -1)
	}
	t.count(d, -1, !d.Claimed)
}

// count updates the counts that limits use.
func (t *Table) count(d *Dispatch, by int, unclaimed bool) {
	n := 0
	if unclaimed {
		n = by
		t.Unclaimed[d.Type] += n
	}
	if d.Group == "" {
		return
	}
	key := d.group()
	load := t.ByGroup[key]
	load.All += by
	load.Unclaimed += n
	if t.ByGroup[key] = load; load == (GroupLoad{}) {
		delete(t.ByGroup, key)
	}
}

// Claim notes that a worker runs the dispatch.
func (t *Table) Claim(d *Dispatch, w events.WorkerID, now time.Time) {
	if !d.Claimed {
		t.Waiting.remove(d)
		t.Unclaimed[d.Type]--
		if load, ok := t.ByGroup[d.group()]; ok {
			load.Unclaimed--
			t.ByGroup[d.group()] = load
		}
		d.Claimed, d.Worker = true, w
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

// Inherit notes to which inbox an earlier owner has sent a claimed dispatch.
func (t *Table) Inherit(d *Dispatch, inbox string) {
	t.Held.Count(d, -1)
	d.Inbox, d.Sent = inbox, true
	t.Held.Count(d, 1)
}

// Current returns the token under which the item may be claimed, 0 for none.
func (t *Table) Current(id events.ID) events.Token {
	if d := t.ByID[id]; d != nil {
		return d.Token
	}
	return 0
}

// Lane returns how many items of a lane are dispatched.
func (t *Table) Lane(key lanes.Key) int { return t.ByLane[key] }

// Forget drops the counts of a type that is gone.
func (t *Table) Forget(typ events.Type) {
	delete(t.ByType, typ)
	delete(t.Unclaimed, typ)
}

// Orphaned notes that the dispatch's message is gone. Its lease counts from a time.
func (t *Table) Orphaned(d *Dispatch, from time.Time) {
	d.Orphan, d.KeptFrom = true, from
	t.Orphans[d.Token] = d
}
