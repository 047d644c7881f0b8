package api

import (
	"context"
	"slices"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// Namespaces knows the namespaces, other than the default one, that this process holds. Its
// methods may be called at any time.
type Namespaces interface {
	// State says how a namespace is here. An error is shown in its place.
	State(ctx context.Context, name events.Namespace) (wire.NamespaceState, error)
	// Metrics returns the metrics of all of them, those that were added first before others.
	Metrics() []NamespaceMetrics
	// AtRisk returns how many of them have something at risk among several nodes that is not
	// known already, and the time of the oldest of their looks, if that is before at; zero if one
	// has not looked yet.
	AtRisk(known []string, at time.Time) (n int, oldest time.Time)
}

// namespaceAPI shows and changes the list of namespaces.
type namespaceAPI struct{ *engine }

func (a *namespaceAPI) handle(h *handlers) {
	projected(h, wire.APINamespaces, a.list)
	projected(h, wire.APINamespace, a.show)
	on(h, wire.APINamespaceSet, a.set)
	on(h, wire.APINamespaceChange, a.change)
	on(h, wire.APINamespaceRemove, a.remove)
}

// hasList refuses a request to another namespace than the default one.
func (a *namespaceAPI) hasList() error {
	if root := a.Names.Namespace(events.DefaultNamespace); root != a.Names {
		return events.Refuse(events.CodeBadRequest, "this namespace has no list of namespaces: ask the namespace %s (%s)", events.DefaultNamespace, root.Prefix)
	}
	return nil
}

// list lists the namespaces.
func (a *namespaceAPI) list(ctx context.Context, _ *call, req wire.StatsRequest) (any, error) {
	if err := a.hasList(); err != nil {
		return nil, err
	}
	at := a.Queries.Applied()
	reply := wire.NamespacesReply{Namespaces: []wire.NamespaceInfo{}, Position: wire.PositionOf(at), Stale: a.lacking(ctx)}
	err := eachRecord(a.Queries, events.RecordNamespace, func(_ string, n events.NamespaceInfo) {
		reply.Namespaces = append(reply.Namespaces, a.info(ctx, n))
	})
	return reply, err
}

// show shows one namespace.
func (a *namespaceAPI) show(ctx context.Context, _ *call, req wire.NamespaceGet) (any, error) {
	if err := a.hasList(); err != nil {
		return nil, err
	}
	info, err := a.find(ctx, req.Name)
	if err == nil && info == nil {
		return nil, events.NoNamespace(events.Namespace(req.Name))
	}
	return info, err
}

// find returns a namespace, nil if there is none.
func (a *namespaceAPI) find(ctx context.Context, name string) (*wire.NamespaceInfo, error) {
	if err := events.CheckOtherNamespace(events.Namespace(name)); err != nil {
		return nil, err
	}
	recs, err := a.Queries.Records(events.RecordNamespace)
	i := slices.IndexFunc(recs, func(r events.Record) bool { return r.Key == name })
	if err != nil || i < 0 {
		return nil, err
	}
	n, err := recordOf[events.NamespaceInfo](recs[i])
	if err != nil {
		return nil, err
	}
	info := a.info(ctx, n)
	return &info, nil
}

// info adds how a namespace is here.
func (a *namespaceAPI) info(ctx context.Context, n events.NamespaceInfo) wire.NamespaceInfo {
	info := wire.NamespaceInfo{NamespaceInfo: n}
	if a.Namespaces == nil {
		return info
	}
	state, err := a.Namespaces.State(ctx, n.Name)
	if err != nil {
		state = wire.NamespaceState{State: wire.NamespaceUnknown, Error: err.Error()}
	}
	info.State = &state
	return info
}

// set adds a namespace, or changes one.
func (a *namespaceAPI) set(ctx context.Context, _ *call, req wire.NamespaceSet) (any, error) {
	return a.changed(ctx, core.SetNamespace{Name: events.Namespace(req.Name), Source: events.SourceAPI, Change: req.NamespaceChange})
}

// change changes a namespace that is there.
func (a *namespaceAPI) change(ctx context.Context, _ *call, req wire.NamespaceChange) (any, error) {
	return a.changed(ctx, core.SetNamespace{Name: events.Namespace(req.Name), Source: events.SourceAPI, Change: req.NamespaceChange, Existing: true})
}

// changed decides a change, and answers with the namespace as it is then.
func (a *namespaceAPI) changed(ctx context.Context, cmd core.SetNamespace) (any, error) {
	if err := a.hasList(); err != nil {
		return nil, err
	}
	o, err := a.one(ctx, cmd)
	if err != nil {
		return nil, err
	}
	reply := wire.NamespaceReply{Repeat: o.Decision.Repeat, Position: wire.PositionOf(o.Position)}
	if err := a.await(ctx, reply.Position); err != nil {
		return nil, err
	}
	reply.Namespace, err = a.find(ctx, string(cmd.Name))
	return reply, err
}

// remove removes a namespace, or says what that would destroy. The items that are submitted
// while it asks are not among those that stand in its way.
func (a *namespaceAPI) remove(ctx context.Context, c *call, req wire.NamespaceRemove) (any, error) {
	if err := a.hasList(); err != nil {
		return nil, err
	}
	if err := a.await(ctx, wire.PositionOf(a.Core.Position())); err != nil {
		return nil, err
	}
	req.By = c.author(req.By)
	info, err := a.find(ctx, req.Name)
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return nil, events.NoNamespace(events.Namespace(req.Name))
	}
	if err := info.MayRemove(); err != nil {
		return nil, err
	}
	reply := wire.NamespaceRemoval{Namespace: *info}
	if req.DryRun {
		return reply, nil
	}
	if err := info.Unused(); err != nil && !req.Force {
		return nil, err
	}
	o, err := a.one(ctx, core.RemoveNamespace{Name: info.Name, By: req.By, CreatedAt: info.CreatedAt})
	if err != nil {
		return nil, err
	}
	a.Logger.Warn("a namespace is being removed, with all that it holds", "namespace", req.Name, "by", req.By)
	reply.Removed, reply.Position = true, wire.PositionOf(o.Position)
	return reply, nil
}
