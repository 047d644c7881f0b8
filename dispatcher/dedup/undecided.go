package dedup

import (
	"container/list"
	"strings"
	"sync"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// undecided holds the submissions that the hook is asked about, from their arrival until
// their decisions are durable. Each is a candidate for those that arrive after it: the
// projection can't show what is being asked about at the same moment. It is safe for
// concurrent use.
type undecided struct {
	mu    sync.Mutex
	types map[events.Type]*list.List // of *asked, the last to arrive first
}

// asked is a submission that the hook is asked about.
type asked struct {
	submit *core.Submit // gets the verdict
	group  *Group
	parent string    // the item that spawns it; empty: none
	item   wire.Item // as a later submission sees it
	place  *list.Element
	// names is the submission that the verdict names, if it was undecided.
	names *asked
	// became is the item that the submission became, or repeats. It is set before
	// group.ended is closed, if at all.
	became events.ID
}

// Group holds submissions that arrive together and are decided in order. A nil Group is
// empty, and its methods do nothing.
type Group struct {
	asker *Asker
	all   []*asked
	ended chan struct{} // closed once they are durable, refused or dropped
}

// Enter takes in the submissions that the hook is asked about, of some that arrived
// together; nil if there are none. They get their verdicts by [Group.Ask], and are removed
// by [Group.End].
func (a *Asker) Enter(subs []*core.Submit) *Group { return a.enter(subs, "") }

func (a *Asker) enter(subs []*core.Submit, parent string) *Group {
	var g *Group
	for _, c := range subs {
		if !a.Asks(c.Type) {
			continue
		}
		if g == nil {
			g = &Group{asker: a, ended: make(chan struct{})}
		}
		g.all = append(g.all, &asked{submit: c, group: g, parent: parent, item: undecidedItem(c)})
	}
	if g != nil {
		a.undecided.add(g.all)
	}
	return g
}

func (u *undecided) add(all []*asked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.types == nil {
		u.types = map[events.Type]*list.List{}
	}
	for _, s := range all {
		l := u.types[s.submit.Type]
		if l == nil {
			l = list.New()
			u.types[s.submit.Type] = l
		}
		s.place = l.PushFront(s)
	}
}

// Became notes the item that a submission became, or repeats.
func (g *Group) Became(c *core.Submit, id events.ID) {
	if g == nil {
		return
	}
	for _, s := range g.all {
		if s.submit == c {
			s.became = id
		}
	}
}

// End removes the submissions of a group. It must be called once.
func (g *Group) End() {
	if g == nil {
		return
	}
	u := &g.asker.undecided
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range g.all {
		l := u.types[s.submit.Type]
		if l.Remove(s.place); l.Len() == 0 {
			delete(u.types, s.submit.Type)
		}
	}
	close(g.ended)
}

// before returns the undecided submissions that arrived before s and whose dedup keys begin
// with a prefix: the last to arrive first, at most limit of them.
func (u *undecided) before(s *asked, keyPrefix string, limit int) (found []*asked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := s.place.Next(); e != nil && len(found) < limit; e = e.Next() {
		b := e.Value.(*asked)
		if b.item.ID != s.item.ID && strings.HasPrefix(b.item.DedupKey, keyPrefix) {
			found = append(found, b)
		}
	}
	return found
}

// undecidedItem returns a submission as the item that it may become.
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
