package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/loopback"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

// reachWithin bounds the wait for an owner, and for the last items to reach a handler.
const reachWithin = time.Minute

// rig is one engine under measurement, or one cluster.
type rig struct {
	o      Options
	d      config.Durability
	t      *table
	dir    string // for data folders
	nodes  []*embedded.Engine
	eng    *embedded.Engine // the node that owned the log at the start
	client *streamwright.Client
	floor  float64 // items/s
}

// startRig starts the nodes and the client.
func startRig(ctx context.Context, o Options, d config.Durability, t *table, dir string) (_ *rig, err error) {
	r := &rig{o: o, d: d, t: t, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if err := r.startNodes(ctx); err != nil {
		return nil, err
	}
	if o.Nodes > 1 {
		if err := r.awaitOwner(ctx); err != nil {
			return nil, err
		}
	}
	r.client, err = r.connect()
	return r, err
}

// startNodes starts the nodes at once: those of a cluster await each other.
func (r *rig) startNodes(ctx context.Context) error {
	c := config.Default()
	// What is measured goes beyond what protects a type: failures in a row, and a
	// backlog.
	c.Defaults = config.Patch{"circuit.consecutive": 0, "max_queued": 0}
	if r.o.Users {
		c.NATS.Users = []config.NATSUser{{Name: "bench", Password: rand.Text(), Roles: access.All}}
	}
	routes, err := loopback.Free(r.o.Nodes)
	if err != nil {
		return err
	}
	r.nodes = make([]*embedded.Engine, len(routes))
	errs := make([]error, len(routes))
	var all sync.WaitGroup
	for i, route := range routes {
		o := embedded.Options{Config: c, Dir: filepath.Join(r.dir, nodeName(i)), Durability: r.d, NATSListen: config.Off, HTTP: config.Off, Logger: slog.New(slog.DiscardHandler)}
		if len(routes) > 1 {
			o.Cluster, o.NATSListen = config.Cluster{Name: "bench", Node: nodeName(i), Listen: route, Peers: routes}, "127.0.0.1:0"
		}
		all.Go(func() { r.nodes[i], errs[i] = embedded.Start(ctx, o) })
	}
	all.Wait()
	r.eng = r.nodes[0]
	return errors.Join(errs...)
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// connect connects a client to r.eng.
func (r *rig) connect() (*streamwright.Client, error) {
	nc, err := r.dial()
	if err != nil {
		return nil, err
	}
	return streamwright.New(nc)
}

func (r *rig) dial() (*nats.Conn, error) { return r.eng.Connect(nats.Name("bench")) }

// awaitOwner waits until a node owns the log and the others stand by, and makes it r.eng.
func (r *rig) awaitOwner(ctx context.Context) error {
	c, err := r.connect()
	if err != nil {
		return err
	}
	defer closeClient(c)
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	for {
		n, err := c.Engine().Nodes(ctx)
		if err == nil && n.Owner != "" && len(n.Nodes) == len(r.nodes) {
			for i, e := range r.nodes {
				if nodeName(i) == n.Owner {
					r.eng = e
				}
			}
			return nil
		}
		if e := sleep.For(ctx, 50*time.Millisecond); e != nil {
			return fmt.Errorf("no node owns the log: %w", errors.Join(e, err))
		}
	}
}

func closeClient(c *streamwright.Client) {
	nc := c.Conn()
	c.Close()
	nc.Close()
}

// stop ends the client and every node.
func (r *rig) stop() error {
	if r.client != nil {
		closeClient(r.client)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, e := range r.nodes {
		if e != nil {
			all.Go(func() { errs[i] = e.Stop(ctx) })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// queue returns the queue of a type, with the slots of the options.
func (r *rig) queue(typ string) *measure.Streamwright {
	return &measure.Streamwright{Client: r.client, Dial: r.dial, Type: typ, Slots: r.o.Slots}
}
