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
	Options
	d      config.Durability
	slots  int // of the worker
	t      *table
	dir    string // for data folders
	nodes  []*embedded.Engine
	eng    *embedded.Engine // the node that owned the log at the start
	client *streamwright.Client
	floor  float64 // items/s
}

// start starts the nodes, at once, since those of a cluster await each other, and the client.
func (r *rig) start(ctx context.Context) error {
	c := config.Default()
	// What is measured goes beyond what protects a type: failures in a row, and a
	// backlog.
	c.Defaults = config.Patch{"circuit.consecutive": 0, "max_queued": 0}
	if r.Users {
		c.NATS.Users = []config.NATSUser{{Name: "bench", Password: rand.Text(), Roles: access.InDefault(access.All)}}
	}
	routes, err := loopback.Free(r.Nodes)
	if err != nil {
		return err
	}
	r.nodes = make([]*embedded.Engine, r.Nodes)
	err = r.all(func(i int) (err error) {
		o := embedded.Options{Config: c, Dir: filepath.Join(r.dir, nodeName(i)), Durability: r.d, NATSListen: config.Off, HTTP: config.Off, Logger: slog.New(slog.DiscardHandler)}
		if r.Nodes > 1 {
			o.Cluster, o.NATSListen = config.Cluster{Name: "bench", Node: nodeName(i), Listen: routes[i], Peers: routes}, "127.0.0.1:0"
		}
		r.nodes[i], err = embedded.Start(ctx, o)
		return err
	})
	if err != nil {
		return err
	}
	r.eng = r.nodes[0]
	if r.Nodes > 1 {
		if err := r.awaitOwner(ctx); err != nil {
			return err
		}
	}
	r.client, err = r.eng.Client(ctx)
	return err
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// all does something with each node, at once.
func (r *rig) all(do func(i int) error) error {
	errs := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// awaitOwner waits until a node owns the log and the others stand by, and makes it r.eng.
func (r *rig) awaitOwner(ctx context.Context) error {
	c, err := r.eng.Client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	for {
		n, err := c.Engine().Nodes(ctx)
		for i, e := range r.nodes {
			if err == nil && nodeName(i) == n.Owner && len(n.Nodes) == len(r.nodes) {
				r.eng = e
				return nil
			}
		}
		if e := sleep.For(ctx, 50*time.Millisecond); e != nil {
			return fmt.Errorf("no node owns the log: %w", errors.Join(e, err))
		}
	}
}

// stop ends the client and every node.
func (r *rig) stop() error {
	if r.client != nil {
		r.client.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.all(func(i int) error {
		if r.nodes[i] == nil {
			return nil
		}
		return r.nodes[i].Stop(ctx)
	})
}

func (r *rig) dial() (*nats.Conn, error) { return r.eng.Connect(nats.Name("bench")) }

// queue returns the queue of a type, by requests. Its handlers do next to nothing.
func (r *rig) queue(typ string, slots int) *measure.Streamwright {
	return &measure.Streamwright{Client: r.client, Dial: r.dial, Type: typ, Slots: slots, Decode: measure.SeqOf}
}

// plain is a queue to which items are published, and that acknowledges nothing.
type plain struct {
	measure.Queue
	nc      *nats.Conn
	subject string
}

// Submit implements [measure.Queue].
func (p plain) Submit(_ context.Context, v measure.Payload) error {
	return p.nc.Publish(p.subject, v.JSON())
}

// published returns the queue of a type, by plain publishes. It has more slots than are ever
// taken.
func (r *rig) published(typ string) plain {
	return plain{r.queue(typ, 64), r.client.Conn(), "work.submit." + typ}
}
