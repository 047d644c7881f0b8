package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"time"

	"github.com/streamwright/streamwright/config"
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
	o.Items, o.Backlog, o.Nodes = cmp.Or(o.Items, 100_000), cmp.Or(o.Backlog, 1_000_000), cmp.Or(o.Nodes, 1)
	o.LatencyFor, o.IdleFor = cmp.Or(o.LatencyFor, 10*time.Second), cmp.Or(o.IdleFor, time.Minute)
	return o
}

// of returns the options for one durability.
func (o Options) of(d config.Durability) Options {
	slots := 200
	if d == config.Always {
		o.Items /= 3
		slots = 500 // what is in flight shares one sync
	}
	o.Slots = cmp.Or(o.Slots, slots)
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

// Run measures, writes each figure as it comes, and at the end the table of goals.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	for _, r := range []struct {
		path       string
		begin, end func(io.Writer) error
	}{
		{o.CPUProfile, pprof.StartCPUProfile, func(io.Writer) error { pprof.StopCPUProfile(); return nil }},
		{o.Trace, trace.Start, func(io.Writer) error { trace.Stop(); return nil }},
		{o.MemProfile, func(io.Writer) error { return nil }, func(w io.Writer) error { return pprof.Lookup("allocs").WriteTo(w, 0) }},
	} {
		if r.path == "" {
			continue
		}
		f, err := os.Create(r.path)
		if err != nil {
			return err
		}
		if err := r.begin(f); err != nil {
			return errors.Join(err, f.Close())
		}
		defer func() { err = errors.Join(err, r.end(f), f.Close()) }()
	}
	t := &table{w: o.Out, json: o.JSON}
	t.machine()
	for _, d := range o.Durabilities {
		if err := measureParts(ctx, o.of(d), d, t); err != nil {
			return fmt.Errorf("durability %s: %w", d, err)
		}
	}
	t.goals(o.Nodes)
	return nil
}

func measureParts(ctx context.Context, o Options, d config.Durability, t *table) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := startRig(ctx, o, d, t, dir)
	if err != nil {
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
