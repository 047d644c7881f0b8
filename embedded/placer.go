package embedded

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/streamwright/streamwright/embedded/placement"
	"github.com/streamwright/streamwright/events"
)

const (
	// placeLook is the time between two looks at where the logs are.
	placeLook = 5 * time.Second
	// movedWithin bounds a move: the question whether the other node can own the log, handing on
	// its leadership, the end of the ownership, and the takeover.
	movedWithin = chooseWithin + handLogWithin + endsWithin + leaseAsk + takenWithin
)

// placer has the nodes share the logs. That of the default namespace's owner alone acts; it
// goes by what its own node knows.
type placer struct {
	home *space
	all  func() []*tenant
	wake chan struct{} // holds one when a log or its settings are new

	planner *placement.Planner
	seen    map[events.Namespace]counted
}

// counted is the number of a log's events at some time.
type counted struct {
	events uint64
	at     time.Time
	rate   float64 // of events a second, before
}

// run moves logs until ctx ends.
func (p *placer) run(ctx context.Context) {
	if !p.home.ledger.lease.shared() {
		return
	}
	tick := time.NewTicker(placeLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
		}
		for p.move(ctx) {
		}
	}
}

// move makes one move, and reports whether it did.
func (p *placer) move(ctx context.Context) bool {
	if !p.home.ledger.lease.wants() {
		p.planner = nil
		return false
	}
	tenants := p.all()
	if len(tenants) == 0 || ctx.Err() != nil {
		return false
	}
	if p.planner == nil {
		p.planner, p.seen = placement.NewPlanner(), map[events.Namespace]counted{}
	}
	nodes, err := p.nodes(ctx)
	if err != nil {
		p.home.log.Warn("the nodes could not be asked who can own which log", "error", err)
		return false
	}
	m, ok := p.planner.Next(time.Now(), nodes, p.logs(tenants))
	if !ok {
		return false
	}
	err = p.carryOut(ctx, m, tenants)
	p.planner.Done(time.Now(), m, err == nil)
	if err != nil && ctx.Err() == nil {
		p.home.log.Warn("a log was not moved: trying again later", "namespace", m.Log, "from", m.From, "to", m.To, "because", m.Because, "error", err)
	}
	return err == nil
}

// nodes says which nodes can own a log. One that has to replace replicas gets none: it hands on
// what it owns before that.
func (p *placer) nodes(ctx context.Context) (nodes []placement.Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, chooseWithin)
	defer cancel()
	r, err := p.home.ledger.lease.allNodes(ctx)
	for _, n := range r.Nodes {
		me := n.Node == p.home.nodeName()
		nodes = append(nodes, placement.Node{Name: n.Node, Fit: (canOwn(n) || me && n.Full == "") && len(n.Damaged) == 0})
	}
	return nodes, err
}

// logs says where the logs are, and how busy. Those whose namespace does not run here, or is
// being removed, are left out.
func (p *placer) logs(tenants []*tenant) []placement.Log {
	all := []placement.Log{{Name: string(events.DefaultNamespace), Owner: p.home.nodeName(), Load: p.rate(events.DefaultNamespace, p.home), Fixed: true}}
	for _, t := range tenants {
		info := t.settings()
		if s, _ := t.now(); s != nil && !info.Removing {
			all = append(all, placement.Log{Name: string(t.name), Owner: s.owner(), Load: p.rate(t.name, s), Node: info.Node})
		}
	}
	return all
}

// rate returns a log's events a second since it was looked at before.
func (p *placer) rate(name events.Namespace, s *space) float64 {
	meta, err := s.ledger.store.Meta()
	now, before := time.Now(), p.seen[name]
	if err != nil || now.Sub(before.at) < time.Second { // too short to say
		return before.rate
	}
	next := counted{events: meta.Events, at: now}
	if !before.at.IsZero() && next.events >= before.events {
		next.rate = float64(next.events-before.events) / now.Sub(before.at).Seconds()
	}
	p.seen[name] = next
	return next.rate
}

// carryOut has the owner of a log hand it on.
func (p *placer) carryOut(ctx context.Context, m placement.Move, tenants []*tenant) error {
	i := slices.IndexFunc(tenants, func(t *tenant) bool { return string(t.name) == m.Log })
	s, why := tenants[i].now()
	if s == nil {
		return errors.New(why)
	}
	ctx, cancel := context.WithTimeout(ctx, movedWithin)
	defer cancel()
	return s.ledger.lease.beat.Ask(ctx, m.To, m.Because)
}
