package dispatcher

import (
	"container/list"
	"strings"
	"sync"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// undecided holds the submissions that the dedup hook is asked about, from their
// arrival until their decisions are durable. Each is a candidate for those that
// arrive behind it: what is judged at the same moment can't be found in the
// projection. Safe for use by several goroutines.
type undecided struct {
	mu    sync.Mutex
	types map[events.Type]*list.List // of *asked, the last to arrive first
}

// asked is a submission that the hook is asked about.
type asked struct {
	submit *core.Submit // gets the verdict
	group  *askedGroup
	parent string    // the item that spawns it; empty: none
	item   wire.Item // what it looks like to a later submission
	place  *list.Element
	// names is the submission that the verdict names, if that was undecided.
	names *asked
	// became is the item that the decision made of it, or found it to repeat. Set
	// before group.ended is closed, if at all.
	became events.ID
}

// askedGroup are submissions that arrive together and are decided in their order.
type askedGroup struct {
	of    *undecided
	all   []*asked
	ended chan struct{} // closed once they are durable, refused or dropped
}

// enter takes in submissions that have arrived together. They are removed by
// [askedGroup.end].
func (u *undecided) enter(subs []*core.Submit, parent string) *askedGroup {
	g := &askedGroup{of: u, ended: make(chan struct{})}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.types == nil {
		u.types = map[events.Type]*list.List{}
	}
	for _, c := range subs {
		a := &asked{submit: c, group: g, parent: parent, item: undecidedItem(c)}
		l := u.types[c.Type]
		if l == nil {
			l = list.New()
			u.types[c.Type] = l
		}
		a.place = l.PushFront(a)
		g.all = append(g.all, a)
	}
	return g
}

// end removes the submissions of a group. It is called once.
func (g *askedGroup) end() {
	u := g.of
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range g.all {
		l := u.types[a.submit.Type]
		if l.Remove(a.place); l.Len() == 0 {
			delete(u.types, a.submit.Type)
		}
	}
	close(g.ended)
}

// before returns the submissions that arrived before a and are undecided, whose
// dedup keys begin with a prefix, the last to arrive first, at most limit of them.
func (u *undecided) before(a *asked, keyPrefix string, limit int) (found []*asked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := a.place.Next(); e != nil && len(found) < limit; e = e.Next() {
		b := e.Value.(*asked)
		if b.item.ID != a.item.ID && strings.HasPrefix(b.item.DedupKey, keyPrefix) {
			found = append(found, b)
		}
	}
	return found
}

// undecidedItem is a submission as the item that it may become.
func undecidedItem(c *core.Submit) wire.Item {
	id := c.ID
	if id.IsZero() {
		id = c.NewID
	}
	it := wire.Item{
		ID: id.String(), Type: string(c.Type), State: events.StateCreated, Priority: int(events.PriorityDefault), Params: c.Params,
		DedupKey: c.DedupKey, IdempotencyKey: c.IdempotencyKey, Capabilities: c.Capabilities, Tenant: c.Tenant, Labels: c.Labels,
		Provenance: c.Provenance, IntakeSeq: c.Intake.Seq, AvailableAt: c.AvailableAt,
	}
	if c.Priority != nil {
		it.Priority = int(*c.Priority)
	}
	return it
}
