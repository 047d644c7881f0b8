package dispatcher

import (
	"time"

	"github.com/streamwright/streamwright/dispatcher/ackmode"
	"github.com/streamwright/streamwright/dispatcher/lanes"
	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
)

// dispatched is one dispatch of one item: from the push of its message until
// its worker has let go. It holds a slot of its type and lane all that time.
type dispatched struct {
	id    events.ID
	token events.Token
	typ   events.Type
	lane  string
	group string // empty: none
	at    time.Time
	lease time.Duration // that its worker was told; 0: not known
	// priority and rank are the item's when it was dispatched.
	priority events.Priority
	rank     readyq.Rank
	place    int // in table.waiting
	claimed  bool
	worker   events.WorkerID
	// lingering: the item has moved on (it was cancelled), the worker has not
	// yet let go.
	lingering bool
	// orphan: the message is gone, and the worker's heartbeats keep the lease.
	orphan bool
	heard  time.Time // last heartbeat that named the run
	seq    uint64    // of the message in the dispatch stream; 0: not known
	spent  time.Time // when the message was first seen delivered and not claimed

	native   bool          // it went to the native stream
	word     *ackmode.Word // what its native worker has sent
	answered bool          // its native worker has nothing more to do with the message
	after    uint64        // a native message's sequence lies behind it
	again    bool          // it was sent to the native stream more than once
}

// groupKey names a group of a type's items.
type groupKey struct {
	typ   events.Type
	group string
}

// groupLoad is how much of a group is dispatched.
type groupLoad struct{ all, unclaimed int }

// table is what is dispatched. Owned by the loop.
type table struct {
	byID      map[events.ID]*dispatched // an item's current dispatch
	byToken   map[events.Token]*dispatched
	byType    map[events.Type]int
	byLane    map[lanes.Key]int
	byGroup   map[groupKey]groupLoad // of groups that are not empty
	unclaimed map[events.Type]int
	orphans   map[events.Token]*dispatched
	lingering map[events.Token]*dispatched
	held      held
	natives   map[events.Token]*dispatched
	bySeq     map[uint64]*dispatched // natives, by where their message is
	waiting   waiting                // those that nobody has claimed and that can be taken back
}

func newTable() *table {
	return &table{
		byID: map[events.ID]*dispatched{}, byToken: map[events.Token]*dispatched{},
		byType: map[events.Type]int{}, byLane: map[lanes.Key]int{}, byGroup: map[groupKey]groupLoad{}, unclaimed: map[events.Type]int{},
		orphans: map[events.Token]*dispatched{}, lingering: map[events.Token]*dispatched{}, held: newHeld(),
		natives: map[events.Token]*dispatched{}, bySeq: map[uint64]*dispatched{},
	}
}

func (t *table) total() int { return len(t.byToken) }

func (t *table) add(d *dispatched) {
	t.byID[d.id] = d
	t.byToken[d.token] = d
	t.byType[d.typ]++
	t.byLane[lanes.Key{Type: d.typ, Name: d.lane}]++
	if d.native {
		t.natives[d.token] = d
	}
	if d.claimed {
		t.held.count(d, 1)
	} else if !d.native {
		t.waiting.add(d)
	}
	t.count(d, 1, !d.claimed)
	if d.orphan {
		t.orphans[d.token] = d
	}
}

// remove frees the slot.
func (t *table) remove(d *dispatched) {
	if t.byToken[d.token] != d {
		return
	}
	delete(t.byToken, d.token)
	delete(t.orphans, d.token)
	delete(t.lingering, d.token)
	delete(t.natives, d.token)
	t.waiting.remove(d)
	if t.bySeq[d.seq] == d {
		delete(t.bySeq, d.seq)
	}
	if t.byID[d.id] == d {
		delete(t.byID, d.id)
	}
	t.byType[d.typ]--
	if key := (lanes.Key{Type: d.typ, Name: d.lane}); t.byLane[key] > 1 {
		t.byLane[key]--
	} else {
		delete(t.byLane, key)
	}
	if d.claimed {
		t.held.count(d, -1)
	}
	t.count(d, -1, !d.claimed)
}

// count keeps what limits go by.
func (t *table) count(d *dispatched, by int, unclaimed bool) {
	n := 0
	if unclaimed {
		n = by
		t.unclaimed[d.typ] += n
	}
	if d.group == "" {
		return
	}
	key := groupKey{d.typ, d.group}
	load := t.byGroup[key]
	load.all += by
	load.unclaimed += n
	if t.byGroup[key] = load; load == (groupLoad{}) {
		delete(t.byGroup, key)
	}
}

// claim notes that a worker runs the dispatch.
func (t *table) claim(d *dispatched, w events.WorkerID, now time.Time) {
	if !d.claimed {
		t.waiting.remove(d)
		t.unclaimed[d.typ]--
		if load, ok := t.byGroup[groupKey{d.typ, d.group}]; ok {
			load.unclaimed--
			t.byGroup[groupKey{d.typ, d.group}] = load
		}
		d.claimed, d.worker = true, w
		t.held.count(d, 1)
	}
	d.heard = now
}

// linger keeps the slot, and no longer stands for the item.
func (t *table) linger(d *dispatched) {
	d.lingering = true
	t.lingering[d.token] = d
	if t.byID[d.id] == d {
		delete(t.byID, d.id)
	}
}

// Current is the token under which the item may be claimed, 0 for none.
func (t *table) Current(id events.ID) events.Token {
	if d := t.byID[id]; d != nil {
		return d.token
	}
	return 0
}

// Lane is how many items of a lane are dispatched.
func (t *table) Lane(key lanes.Key) int { return t.byLane[key] }

// orphaned notes that the dispatch's message is gone.
func (t *table) orphaned(d *dispatched, now time.Time) {
	d.orphan, d.heard = true, now
	t.orphans[d.token] = d
}
