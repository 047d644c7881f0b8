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
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
)

// parts are the parts of a run, in order.
var parts = []struct {
	name string
	run  func(*rig, context.Context) error
}{
	{"floor", (*rig).measureFloor}, {"flow", (*rig).measureFlow}, {"burndown", (*rig).measureBurnDown}, {"bulk", (*rig).measureBulk},
	{"latency", (*rig).measureLatency}, {"rebuild", (*rig).measureRebuild}, {"idle", (*rig).measureIdle}, {"memory", (*rig).measureMemory},
	{"discovery", (*rig).measureDiscovery}, {"native", (*rig).measureNative}, {"kinds", (*rig).measureKinds},
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
	Assign       bool // items to workers, instead of having them claim
	Users        bool // with users: clients have an account of their own
	JSON         bool
	CPUProfile   string // file
	MemProfile   string // file, of all allocations
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
	if o.IdleFor == 0 {
		o.IdleFor = 60 * time.Second
	}
	return o
}

func (o Options) validate() error {
	if o.Items < 1000 || o.Backlog < 1000 || o.Slots < 0 || o.Slots > 1000 {
		return errors.New("items and backlog must be at least 1,000, and slots 1 to 1,000")
	}
	return nil
}

// Run measures and writes a table as it goes.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	if o.CPUProfile != "" {
		f, err := os.Create(o.CPUProfile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
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
	return nil
}

// rig is one engine under measurement.
type rig struct {
	o      Options
	d      config.Durability
	t      *table
	eng    *embedded.Engine
	client *streamwright.Client
	floor  float64 // items/s
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
	r := &rig{o: o, d: d, t: t}
	if err := r.start(ctx, filepath.Join(dir, "data")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	t.section(string(d))
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

func (r *rig) start(ctx context.Context, dir string) error {
	c := config.Default()
	// What is measured goes beyond what protects a type: failures in a row, and a
	// backlog.
	c.Defaults = config.Patch{"circuit.consecutive": 0, "max_queued": 0}
	c.Workers.Assign = r.o.Assign
	if r.o.Users {
		c.NATS.Users = []config.NATSUser{{Name: "bench", Password: rand.Text(), Roles: access.All}}
	}
	eng, err := embedded.Start(ctx, embedded.Options{
		Config: c, Dir: dir, Durability: r.d, NATSListen: config.Off, HTTP: config.Off, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	nc, err := eng.Connect(nats.Name("bench"))
	if err != nil {
		return errors.Join(err, eng.Stop(ctx))
	}
	r.eng = eng
	r.client, err = streamwright.New(nc)
	return err
}

func (r *rig) stop() error {
	nc := r.client.Conn()
	r.client.Close()
	nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.eng.Stop(ctx)
}
