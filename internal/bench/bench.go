// Package bench is `engine bench`: it measures the engine beside a floor, in one run on one
// server: a raw JetStream memory work queue with publish, pull and ack, without any work
// engine. Rates come with their ratio to that floor, because machines differ and are
// noisy while ratios hold.
//
// It drives the engine from outside, by the Go client and package workers, as a program of
// its users would, with the harness of internal/measure.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/measure"
)

// parts are the parts of a run, in order.
var parts = []struct {
	name string
	run  func(*rig, context.Context) error
}{
	{"floor", (*rig).measureFloor}, {"flow", (*rig).measureFlow}, {"burndown", (*rig).measureBurnDown}, {"bulk", (*rig).measureBulk},
	{"latency", (*rig).measureLatency}, {"rebuild", (*rig).measureRebuild}, {"idle", (*rig).measureIdle}, {"memory", (*rig).measureMemory},
	{"disk", (*rig).measureDisk}, {"discovery", (*rig).measureDiscovery}, {"ack", (*rig).measureAck}, {"waits", (*rig).measureWaits},
	{"namespaces", (*rig).measureNamespaces},
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
	Durabilities []config.Durability
	Only         []string // parts; empty: all
	Items        int      // per throughput part; default 100,000 (always: a third of it)
	Backlog      int      // of the memory part; default 1,000,000
	DedupKeys    bool     // give each item of the backlog a dedup key
	LatencyFor   time.Duration
	IdleFor      time.Duration
	Users        bool // with users: clients have an account of their own
	Nodes        int  // engines in this process that form a cluster; default 1, which forms none
	JSON         bool
	CPUProfile   string // file
}

// Run measures, writes each figure as it comes, and at the end the table of goals.
func Run(ctx context.Context, o Options) (err error) {
	if len(o.Durabilities) == 0 {
		o.Durabilities = []config.Durability{config.Interval, config.Always}
	}
	if len(o.Only) == 0 {
		o.Only = Parts()
	}
	o.Items, o.Backlog, o.Nodes = cmp.Or(o.Items, 100_000), cmp.Or(o.Backlog, 1_000_000), cmp.Or(o.Nodes, 1)
	o.LatencyFor, o.IdleFor = cmp.Or(o.LatencyFor, 10*time.Second), cmp.Or(o.IdleFor, time.Minute)
	if o.Items < 1000 || o.Backlog < 1000 {
		return errors.New("items and backlog must be at least 1,000")
	}
	if o.Nodes != 1 && o.Nodes != 3 && o.Nodes != 5 {
		return errors.New("nodes must be 1, 3 or 5")
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
	t := &table{w: o.Out, json: o.JSON}
	t.text("%s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	for _, d := range o.Durabilities {
		if err := measureParts(ctx, o, d, t); err != nil {
			return fmt.Errorf("durability %s: %w", d, err)
		}
	}
	t.goals(o.Nodes)
	return nil
}

func measureParts(ctx context.Context, o Options, d config.Durability, t *table) (err error) {
	slots := 200
	if d == config.Always {
		o.Items, slots = o.Items/3, 500 // what is in flight shares one sync
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &rig{Options: o, d: d, slots: slots, t: t, dir: dir}
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.start(ctx); err != nil {
		return err
	}
	t.of = d
	t.text("\ndurability %s\n", d)
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

// timed does something with n items, and writes how many a second, and what each cost this
// process, with the server, the clients and the workers in it. On a machine that others
// share, that tells more than a wall clock.
func (r *rig) timed(what string, n int, do func() error) (rate float64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), measure.Self(measure.SelfCPU)
	if err := do(); err != nil {
		return 0, err
	}
	rate = measure.PerSecond(n, start)
	cpu = measure.Self(measure.SelfCPU) - cpu
	runtime.ReadMemStats(&after)
	r.t.row(what, rate, perSecond)
	if r.floor > 0 {
		r.t.row(what, rate/r.floor, ofFloor)
	}
	r.t.row("CPU an item, "+what, 1e6*cpu/float64(n), "µs")
	r.t.row("objects allocated an item, "+what, float64(after.Mallocs-before.Mallocs)/float64(n), "objects")
	return rate, nil
}
