package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/loopback"
	"github.com/streamwright/streamwright/internal/sleep"
)

// parts are the parts of a run, in order.
var parts = []struct {
	name string
	run  func(*rig, context.Context) error
}{
	{"floor", (*rig).measureFloor}, {"flow", (*rig).measureFlow}, {"burndown", (*rig).measureBurnDown}, {"bulk", (*rig).measureBulk},
	{"latency", (*rig).measureLatency}, {"rebuild", (*rig).measureRebuild}, {"idle", (*rig).measureIdle}, {"memory", (*rig).measureMemory},
	{"disk", (*rig).measureDisk}, {"discovery", (*rig).measureDiscovery}, {"ack", (*rig).measureAck}, {"kinds", (*rig).measureKinds},
}

// Parts returns the names of all parts.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Options configure a run.
type Options struct {
	Out          io.Writer
	Dir          string // where data folders are made and removed; default the system's
	Durabilities []config.Durability
	Only         []string // parts; empty: all
	Items        int      // per throughput part; default 100,000 (always: a third of it)
	Backlog      int      // of the memory part; default 1,000,000
	DedupKeys    bool     // give each item of the backlog a dedup key
	Slots        int      // of the worker; default 200 (always: 500)
	LatencyFor   time.Duration
	IdleFor      time.Duration
	Users        bool // with users: clients have an account of their own
	Nodes        int  // engines in this process that form a cluster; default 1, which forms none
	JSON         bool
	CPUProfile   string // file
	MemProfile   string // file, of all allocations
	Trace        string // file, for go tool trace
}

func (o Options) withDefaults() Options {
	if len(o.Durabilities) == 0 {
		o.Durabilities = []config.Durability{config.Interval, config.Always}
	}
	if len(o.Only) == 0 {
		o.Only = Parts()
	}
	if o.Items == 0 {
		o.Items = 100_000
	}
	if o.Backlog == 0 {
		o.Backlog = 1_000_000
	}
	if o.LatencyFor == 0 {
		o.LatencyFor = 10 * time.Second
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.IdleFor == 0 {
		o.IdleFor = 60 * time.Second
	}
	return o
}

func (o Options) validate() error {
	if o.Items < 1000 || o.Backlog < 1000 || o.Slots < 0 || o.Slots > 1000 {
		return errors.New("items and backlog must be at least 1,000, and slots 1 to 1,000")
	}
	if o.Nodes != 1 && o.Nodes != 3 && o.Nodes != 5 {
		return errors.New("nodes must be 1, 3 or 5")
	}
	return nil
}

// recording is a profile or trace, written to a file while Run measures.
type recording struct {
	path  string // empty: none
	begin func(io.Writer) error
	end   func()
}

// start begins it, and returns what ends it.
func (r recording) start() (stop func(), err error) {
	if r.path == "" {
		return func() {}, nil
	}
	f, err := os.Create(r.path)
	if err != nil {
		return nil, err
	}
	if err := r.begin(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { r.end(); f.Close() }, nil
}

// Run measures, writes each figure as it comes, and at the end the table of goals.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	for _, r := range []recording{{o.CPUProfile, pprof.StartCPUProfile, pprof.StopCPUProfile}, {o.Trace, trace.Start, trace.Stop}} {
		stop, err := r.start()
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.MemProfile != "" {
		defer func() { err = errors.Join(err, writeAllocs(o.MemProfile)) }()
	}
	t := &table{w: o.Out, json: o.JSON}
	t.machine()
	for _, d := range o.Durabilities {
		if err := measure(ctx, o, d, t); err != nil {
			return fmt.Errorf("durability %s: %w", d, err)
		}
	}
	t.goals(o.Nodes)
	return nil
}

// rig is one engine under measurement, or one cluster.
type rig struct {
	o        Options
	d        config.Durability
	t        *table
	dir      string // for data folders
	nodes    []*embedded.Engine
	eng      *embedded.Engine // the node that owned the log at the start
	client   *streamwright.Client
	password string  // of the user, with users: the same on each node
	floor    float64 // items/s
}

func measure(ctx context.Context, o Options, d config.Durability, t *table) (err error) {
	slots := 200
	if d == config.Always {
		o.Items /= 3
		slots = 500 // what is in flight shares one sync
	}
	if o.Slots == 0 {
		o.Slots = slots
	}
	dir, err := os.MkdirTemp(o.Dir, "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &rig{o: o, d: d, t: t, dir: dir, password: rand.Text()}
	if err := r.start(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	t.section(d)
	for _, p := range parts {
		if !slices.Contains(o.Only, p.name) {
			continue
		}
		if err := p.run(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// start starts the nodes and the client.
func (r *rig) start(ctx context.Context, dir string) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if r.o.Nodes == 1 {
		if r.eng, err = r.startNode(ctx, dir, config.Cluster{}); err != nil {
			return err
		}
		r.nodes = []*embedded.Engine{r.eng}
	} else if err := r.startCluster(ctx, dir); err != nil {
		return err
	}
	nc, err := r.eng.Connect(nats.Name("bench"))
	if err != nil {
		return err
	}
	r.client, err = streamwright.New(nc)
	return err
}

func (r *rig) startNode(ctx context.Context, dir string, cluster config.Cluster) (*embedded.Engine, error) {
	c := config.Default()
	// What is measured goes beyond what protects a type: failures in a row, and a
	// backlog.
	c.Defaults = config.Patch{"circuit.consecutive": 0, "max_queued": 0}
	if r.o.Users {
		c.NATS.Users = []config.NATSUser{{Name: "bench", Password: r.password, Roles: access.All}}
	}
	listen := config.Off
	if cluster.On() {
		listen = "127.0.0.1:0"
	}
	return embedded.Start(ctx, embedded.Options{
		Config: c, Dir: dir, Durability: r.d, Cluster: cluster, NATSListen: listen, HTTP: config.Off, Logger: slog.New(slog.DiscardHandler),
	})
}

// startCluster starts the nodes of a cluster, and waits until one owns the log.
func (r *rig) startCluster(ctx context.Context, dir string) error {
	routes, err := loopback.Free(r.o.Nodes)
	if err != nil {
		return err
	}
	started := make([]*embedded.Engine, len(routes))
	errs := make([]error, len(routes))
	var all sync.WaitGroup
	for i, route := range routes {
		all.Go(func() {
			name := nodeName(i)
			started[i], errs[i] = r.startNode(ctx, filepath.Join(dir, name), config.Cluster{Name: "bench", Node: name, Listen: route, Peers: routes})
		})
	}
	all.Wait()
	for _, e := range started {
		if e != nil {
			r.nodes = append(r.nodes, e)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return r.awaitOwner(ctx, started)
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

// awaitOwner waits until a node owns the log and the others stand by, and puts the
// client beside the owner.
func (r *rig) awaitOwner(ctx context.Context, nodes []*embedded.Engine) error {
	nc, err := nodes[0].Connect(nats.Name("bench"))
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := streamwright.New(nc)
	if err != nil {
		return err
	}
	defer c.Close()
	for end := time.Now().Add(reachWithin); ; {
		n, err := c.Engine().Nodes(ctx)
		if err == nil && n.Owner != "" && len(n.Nodes) == len(nodes) {
			for i, e := range nodes {
				if nodeName(i) == n.Owner {
					r.eng = e
				}
			}
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("no node owns the log after %s: %w", reachWithin, err)
		}
		if err := sleep.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// stop ends the client and every node.
func (r *rig) stop() error {
	if r.client != nil {
		nc := r.client.Conn()
		r.client.Close()
		nc.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, e := range r.nodes {
		all.Go(func() { errs[i] = e.Stop(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}
