package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// chooseWithin bounds the choice of an heir, while the owner still works.
	chooseWithin = time.Second
	// handLogWithin bounds the time in which the log's leadership goes to the heir. Nothing
	// is decided meanwhile.
	handLogWithin = time.Second
	// maxHeirLag is the lag of a standby that can be an heir.
	maxHeirLag = 10_000 // events
)

// chooseHeir returns the standby that should own the log after this engine: of those that
// follow it and have room, and have its settings if any does, the one that is least behind.
// Empty: there is none.
func (l *lease) chooseHeir(ctx context.Context) string {
	if l.call == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, chooseWithin)
	defer cancel()
	r, err := l.allNodes(ctx)
	if err != nil {
		l.log.Warn("the other nodes could not be asked: whoever is first takes the log over", "error", err)
		return ""
	}
	fit := slices.DeleteFunc(r.Nodes, func(n wire.Node) bool {
		return !n.Online || n.Role != wire.RoleStandby || n.CutOff != "" || n.Full != "" || n.LagEvents > maxHeirLag
	})
	if len(fit) == 0 {
		return ""
	}
	differs := func(n wire.Node) int {
		if n.SettingsDiffer {
			return 1
		}
		return 0
	}
	return slices.MinFunc(fit, func(a, b wire.Node) int {
		return cmp.Or(cmp.Compare(differs(a), differs(b)), cmp.Compare(a.LagEvents, b.LagEvents), cmp.Compare(a.Node, b.Node))
	}).Node
}

// allNodes asks all nodes how they are.
func (l *lease) allNodes(ctx context.Context) (r wire.NodesReply, err error) {
	data, err := l.call(ctx, wire.APINodes, nil)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

// leadsLog reports whether this is a node's server that leads the event stream.
func (s *server) leadsLog(n wire.Names) bool {
	return s != nil && s.member() != nil && s.ns().JetStreamIsStreamLeader(n.Account(), n.EventStream(0))
}

const (
	// leaderLook is the time between two looks whether the owner's server leads the log. One
	// that does not for leaderLooks in a row asks for it; after that it lets leaderRest pass.
	leaderLook  = 5 * time.Second
	leaderLooks = 3
	leaderRest  = time.Minute
)

// bringTogether has the owner's own server lead the log: an append then needs one way less
// between the nodes. It is in no hurry, since the change itself holds up appends for a moment.
func (l *lease) bringTogether(ctx context.Context) {
	l.watch(ctx, leaderLook, leaderLooks, leaderRest, func() bool { return !l.srv.leadsLog(l.names()) && l.full() == nil }, func() {
		l.log.Info("another node's server leads the log: asking for it")
		try, cancel := context.WithTimeout(ctx, handLogWithin)
		defer cancel()
		if err := l.cluster().HandLog(try, l.nodeName()); err != nil {
			l.log.Warn("the log's leadership could not be had", "error", err)
		}
	})
}

// watch acts when the owner has found something wrong at several looks in a row, and rests
// after that.
func (l *lease) watch(ctx context.Context, every time.Duration, looks int, rest time.Duration, wrong func() bool, act func()) {
	for n := 0; sleep.For(ctx, every) == nil; {
		if n++; !l.owns.Load() || !wrong() {
			n = 0
		}
		if n < looks {
			continue
		}
		act()
		if n = 0; sleep.For(ctx, rest) != nil {
			return
		}
	}
}

const (
	// fullLook is the time between two looks whether the owner has room. One that had none
	// fullLooks times in a row hands the log on; after a try it lets fullRest pass.
	fullLook  = time.Second
	fullLooks = 3
	fullRest  = time.Minute
)

// leaveFull has an owner without room for new work give the log to a standby that has some.
// If none has, the owner stays, and refuses new work.
func (l *lease) leaveFull(ctx context.Context) {
	l.watch(ctx, fullLook, fullLooks, fullRest, func() bool { return l.full() != nil }, func() { l.handOnFull(ctx, l.full()) })
}

// handOnFull gives the log to a standby, as at a stop: the log's leadership first, and then
// the lease, so that the heir's first append ends this ownership at the latest.
func (l *lease) handOnFull(ctx context.Context, full *api.RoomAlarm) {
	if full == nil {
		return // there is room again
	}
	heir := l.chooseHeir(ctx)
	if heir == "" {
		l.log.Warn("this node owns the log and has no room for new work, and no other has that could own it: new work is refused", "why", full.Fact, "look_again_in", fullRest)
		return
	}
	l.log.Warn("this node owns the log and has no room for new work: handing the log to one that has", "why", full.Fact, "to", heir)
	l.handOver(ctx, heir)
	if l.srv.leadsLog(l.names()) {
		l.log.Warn("this node's server still leads the log: it stays the owner", "try_again_in", fullRest)
		return
	}
	if l.handOn(ctx, heir, wire.TakeoverFull) {
		l.log.Info("the log was handed over", "to", heir)
	}
}

// handOver gives the leadership of the log to the heir's server, so that the heir appends
// where its log is, and no election is needed when this server stops.
func (l *lease) handOver(ctx context.Context, heir string) {
	if heir == "" || !l.cfg.Cluster.On() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handLogWithin)
	defer cancel()
	if err := l.cluster().HandLog(ctx, heir); err != nil {
		l.log.Warn("the log's leadership was not handed on: its servers choose another leader", "to", heir, "error", err)
	}
}
