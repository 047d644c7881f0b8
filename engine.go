package streamwright

import (
	"context"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// What the engine answers about itself.
type (
	// Stats is the engine at a glance.
	Stats = wire.StatsReply
	// Alarm is one thing that keeps the engine from its work, or soon will.
	Alarm = wire.Alarm
	// Info describes the engine.
	Info = wire.InfoReply
	// Nodes describes the engines of one log, and where the log is.
	Nodes = wire.NodesReply
	// Node describes one of them.
	Node = wire.Node
	// Proof is the outcome, or the progress, of Verify and Rebuild.
	Proof = wire.VerifyReply
	// State is the engine as of a moment.
	State = wire.State
	// StateProgress is the progress of a StateAt.
	StateProgress = wire.StateReply
	// Retention describes what the engine keeps of the log and of ended items.
	Retention = wire.Retention
	// AuditFilter says which acts to list, and AuditPage holds some of them.
	AuditFilter = wire.Audit
	AuditPage   = wire.AuditReply
	// Clock is the engine's time, and its verdict on the NATS server's.
	Clock = wire.Clock
)

// Engine watches and operates the engine itself. [Client.Engine] returns one.
type Engine struct{ c *Client }

// Engine returns the handle for the engine itself:
//
//	stats, err := client.Engine().Stats(ctx)
func (c *Client) Engine() Engine { return Engine{c} }

// Stats returns the engine at a glance.
func (e Engine) Stats(ctx context.Context) (Stats, error) {
	return ask[Stats](ctx, e.c, wire.APIStats, wire.StatsRequest{MinPosition: e.c.Position()})
}

// Info describes the engine.
func (e Engine) Info(ctx context.Context) (Info, error) {
	return ask[Info](ctx, e.c, wire.APIInfo, struct{}{})
}

// Nodes asks all engines of the log how they are. A single engine answers for
// itself. A node that is known and has not answered within half a second has Online
// false.
func (e Engine) Nodes(ctx context.Context) (Nodes, error) {
	return ask[Nodes](ctx, e.c, wire.APINodes, struct{}{})
}

// RemoveNode takes a dead node out of the cluster for good: the others no longer count
// it, and make its copies of the streams themselves. It is CodeWrongState while the node
// is online, and CodeNotFound if the cluster knows no such node.
func (e Engine) RemoveNode(ctx context.Context, node string) error {
	_, err := e.c.change(ctx, wire.APINodeRemove, wire.NodeRemove{Node: node})
	return err
}

// Audit returns who did what, oldest first: the acts that a filter names, with By. A page may
// be short, even empty, and still have a NextCursor; set the filter's Cursor to it until there
// is none. The log is all there is of it: it begins at the first page's From.
func (e Engine) Audit(ctx context.Context, f AuditFilter) (AuditPage, error) {
	return ask[AuditPage](ctx, e.c, wire.APIAudit, f)
}

// Verify has the engine read the log into a second store and compare that with the
// live one. It calls progress, if not nil, as it advances. A difference is not an
// error: look at Equal.
func (e Engine) Verify(ctx context.Context, progress func(Proof)) (Proof, error) {
	return askStream(ctx, e.c, wire.APIVerify, struct{}{}, func(p Proof) bool { return p.Done }, progress)
}

// VerifyNode is Verify for the store of one node of several, by its name.
func (e Engine) VerifyNode(ctx context.Context, node string, progress func(Proof)) (Proof, error) {
	return askStream(ctx, e.c, wire.APIVerify, wire.Verify{Node: node}, func(p Proof) bool { return p.Done }, progress)
}

// Rebuild has the engine replace its store by one rebuilt from the log.
func (e Engine) Rebuild(ctx context.Context, progress func(Proof)) (Proof, error) {
	return askStream(ctx, e.c, wire.APIRebuild, struct{}{}, func(p Proof) bool { return p.Done }, progress)
}

// StateAt has the engine read its log up to a moment, and returns its state then. It
// calls progress, if not nil, as it advances. Only one such read can be under way at a
// time; another is CodeUnavailable. A moment before the log's first event is
// CodeNotFound.
func (e Engine) StateAt(ctx context.Context, m PointInTime, progress func(StateProgress)) (State, error) {
	req := wire.StateAt{AtPosition: m.Position, AtTime: m.Time}
	r, err := askStream(ctx, e.c, wire.APIState, req, func(r StateProgress) bool { return r.Done && r.State != nil }, progress)
	if err != nil {
		return State{}, err
	}
	return *r.State, nil
}

// Cut has the engine write all that it keeps anew at the log's end, and cut the
// log before that. It returns at once; [Engine.Info] tells how far the engine is.
func (e Engine) Cut(ctx context.Context) (Retention, error) {
	return ask[Retention](ctx, e.c, wire.APICut, struct{}{})
}

// CutPast has the log cut until it begins after a position, so that nothing up to there
// can be read from it, and waits for that: seconds, longer if the engine keeps much. It
// calls progress, if not nil, as it waits. When it ends early (with the context, or an
// error), the result says how far the engine is; the engine goes on.
func (e Engine) CutPast(ctx context.Context, p wire.Position, progress func(Retention)) (last Retention, err error) {
	past, err := p.Seq()
	if err != nil {
		return last, err
	}
	tick := time.NewTicker(cutLook)
	defer tick.Stop()
	for {
		r, err := ask[Retention](ctx, e.c, wire.APICut, wire.Cut{Past: p})
		if err != nil {
			return last, err
		}
		last = r
		if first, err := r.LogFirst.Seq(); err != nil || first > past {
			return last, err
		}
		if progress != nil {
			progress(r)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// cutLook is the time between two looks at a cut that is under way.
const cutLook = 250 * time.Millisecond

// Clock returns the engine's time, the NATS server's, and whether that is
// plausible.
func (e Engine) Clock(ctx context.Context) (Clock, error) {
	return ask[Clock](ctx, e.c, wire.APIClock, struct{}{})
}

// AcceptClock confirms the NATS server's clock, which the engine follows from
// then on; by says who confirms it, and may be empty. Everything that is due by
// that time then happens: items expire, ended ones are pruned. It is recorded in
// the log, and may set the clock back. The engine is away for a moment meanwhile.
func (e Engine) AcceptClock(ctx context.Context, by string) (Clock, error) {
	return ask[Clock](ctx, e.c, wire.APIClockAccept, wire.AcceptClock{By: by})
}
