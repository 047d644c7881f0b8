package bench

import (
	"context"
	"fmt"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
)

// measureNamespaces measures the same items, and the same pickup, in one namespace and spread
// over 2, 4 and 8; the nodes of a cluster own them in turn. Beside them there is the default
// namespace alone.
func (r *rig) measureNamespaces(ctx context.Context) (err error) {
	var clients []*streamwright.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	for _, n := range []int{1, 2, 4, 8} {
		for len(clients) < n {
			c, err := r.namespace(ctx, len(clients))
			if err != nil {
				return err
			}
			clients = append(clients, c)
		}
		at := ", 1 namespace"
		if n > 1 {
			at = fmt.Sprintf(", %d namespaces", n)
		}
		flow, pickup := r.spread(clients, fmt.Sprintf("flow-%d", n), r.slots), r.spread(clients, fmt.Sprintf("pickup-%d", n), 64)
		if _, err := r.workOff(ctx, "end to end"+at, flow, func() error { return r.bulk(ctx, flow, 0, r.Items) }); err != nil {
			return err
		}
		if _, err := r.pickup(ctx, "pickup at 300/s"+at, pickup, 300); err != nil {
			return err
		}
	}
	return nil
}

// namespace adds the i-th namespace, and returns a client of it once its node owns it.
func (r *rig) namespace(ctx context.Context, i int) (*streamwright.Client, error) {
	name, node := fmt.Sprintf("b%d", i+1), ""
	if r.Nodes > 1 {
		node = nodeName(i % r.Nodes)
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	if err := measure.AddNamespace(ctx, r.client.Namespaces(), name, node); err != nil {
		return nil, err
	}
	return r.eng.Client(ctx, streamwright.WithNamespace(name))
}

// spread returns the queue of a type in each client's namespace.
func (r *rig) spread(clients []*streamwright.Client, typ string, slots int) *measure.Spread {
	parts := make([]measure.Queue, len(clients))
	for i, c := range clients {
		q := r.queue(typ, slots)
		q.Client = c
		parts[i] = q
	}
	return measure.NewSpread(parts...)
}
