package streamwright

import (
	"cmp"
	"context"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// NamespaceInfo is a namespace, and how it is at the node that answered.
type NamespaceInfo = wire.NamespaceInfo

// NamespaceState says how a namespace is at the node that answered.
type NamespaceState = wire.NamespaceState

// NamespaceChange says what to change of a namespace; what is nil stays as it is, or is the
// default of a new one. The fields are pointers: new(true) pauses it.
type NamespaceChange = events.NamespaceChange

// NamespaceLimits bounds what a namespace uses; 0 sets no limit beside the engine's.
type NamespaceLimits = events.NamespaceLimits

// NamespaceLimitsChange says what to change of a namespace's limits; what is nil stays as it
// is, and 0 sets no limit.
type NamespaceLimitsChange = events.NamespaceLimitsChange

// NamespaceRemoval says what the removal of a namespace has destroyed, or would destroy.
type NamespaceRemoval = wire.NamespaceRemoval

// RemoveNamespace holds the options of [Namespaces.Remove].
type RemoveNamespace struct {
	Force  bool   // destroy items that have not ended, and what the engine does not know
	DryRun bool   // remove nothing, and return what would be destroyed
	By     string // who asks, for the log; at most 256 bytes
}

// Namespaces manages the namespaces of an engine: logs of their own, with their own items,
// types, schedules and limits. [Client.Namespaces] returns one. The default namespace is
// always there, has the list of the others, and is not in it.
type Namespaces struct{ c *Client }

// Namespaces returns the handle for namespaces. The client must be one of the default
// namespace, whose engine has the list:
//
//	_, err := client.Namespaces().Set(ctx, "acme", streamwright.NamespaceChange{Node: new("node-2")})
func (c *Client) Namespaces() Namespaces { return Namespaces{c} }

// List returns the namespaces, by name. Where some may be missing, since the node that
// answers is cut off from the others, or behind them, the error is CodeUnavailable beside
// the list.
func (n Namespaces) List(ctx context.Context) ([]NamespaceInfo, error) {
	r, err := ask[wire.NamespacesReply](ctx, n.c, wire.APINamespaces, wire.StatsRequest{MinPosition: n.c.Position()})
	return r.Namespaces, cmp.Or(err, listStale(r.Stale))
}

// Get returns one namespace. An unknown one is CodeNotFound.
func (n Namespaces) Get(ctx context.Context, name string) (NamespaceInfo, error) {
	return ask[NamespaceInfo](ctx, n.c, wire.APINamespace, wire.NamespaceGet{Name: name, MinPosition: n.c.Position()})
}

// Set adds a namespace, or changes the one of the name: a-z and 0-9 with single - between
// them, at most 32 bytes. Setting the same again changes nothing. A change of a namespace
// that engine.toml sets is CodeSetInFile.
func (n Namespaces) Set(ctx context.Context, name string, change NamespaceChange) (NamespaceInfo, error) {
	return n.change(ctx, wire.APINamespaceSet, wire.NamespaceSet{Name: name, NamespaceChange: change})
}

// Change is Set for a namespace that is there; an unknown one is CodeNotFound.
func (n Namespaces) Change(ctx context.Context, name string, change NamespaceChange) (NamespaceInfo, error) {
	return n.change(ctx, wire.APINamespaceChange, wire.NamespaceChange{Name: name, NamespaceChange: change})
}

// Pause stops a namespace, which keeps what it holds.
func (n Namespaces) Pause(ctx context.Context, name string) (NamespaceInfo, error) {
	return n.Change(ctx, name, NamespaceChange{Paused: new(true)})
}

// Resume lets a paused namespace go on where it was.
func (n Namespaces) Resume(ctx context.Context, name string) (NamespaceInfo, error) {
	return n.Change(ctx, name, NamespaceChange{Paused: new(false)})
}

// Move names the node that should own a namespace's log from now on; empty: any.
func (n Namespaces) Move(ctx context.Context, name, node string) (NamespaceInfo, error) {
	return n.Change(ctx, name, NamespaceChange{Node: &node})
}

// Remove removes a namespace and destroys all that it holds: items, histories, documents and
// logs. Without Force it is CodeWrongState while items have not ended, or while the engine
// does not know whether there are some. A namespace that engine.toml sets is CodeSetInFile.
func (n Namespaces) Remove(ctx context.Context, name string, o RemoveNamespace) (NamespaceRemoval, error) {
	r, err := ask[NamespaceRemoval](ctx, n.c, wire.APINamespaceRemove, wire.NamespaceRemove{Name: name, Force: o.Force, DryRun: o.DryRun, By: o.By})
	n.c.ObservePosition(r.Position)
	return r, err
}

func (n Namespaces) change(ctx context.Context, op string, req any) (NamespaceInfo, error) {
	r, err := ask[wire.NamespaceReply](ctx, n.c, op, req)
	n.c.ObservePosition(r.Position)
	if r.Namespace == nil {
		return NamespaceInfo{}, err
	}
	return *r.Namespace, err
}
