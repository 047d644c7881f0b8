// Command bench compares Streamwright with other queues on one machine, in one run: the
// same payload and concurrency, durability matched, each system tuned as its
// documentation says. It starts the servers that it needs on the loopback interface,
// each with a fresh folder, ends them, and writes docs/operate/COMPARISON.md with its
// plots:
//
//	go -C bench run .
//	go -C bench run . --middle
//	go -C bench run . --quick --out "$(mktemp -d)"
//
// A system is one file that implements System and measure.Queue, a load a line of
// loads. For every measurement the servers are started anew, and a client's process
// submits and works; this process reads from /proc what both use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
)

func main() {
	if text := os.Getenv(clientEnv); text != "" {
		if err := clientMain(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are what the flags say.
type settings struct {
	Options
	only, loads string
	out, dir    string
	rounds      int
	middle      bool
	quick       bool
}

func parse(args []string, out io.Writer) (settings, error) {
	s := settings{Options: Options{Rates: []int{100, 300, 1000, 3000}}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	var ids []string
	for _, one := range systems() {
		ids = append(ids, one.About().ID)
	}
	f.StringVar(&s.only, "only", "", "compare only these `systems`, separated by commas: "+strings.Join(ids, ", ")+", or by product: river")
	f.StringVar(&s.loads, "loads", "", "measure only these `loads`, separated by commas: "+strings.Join(loadNames(), ", "))
	f.IntVar(&s.rounds, "rounds", 3, "measure everything so many `times`; the deep queue once")
	f.IntVar(&s.Items, "items", 50_000, "the `number` of items of a throughput measurement; bulk and burn-down have twice as many")
	f.IntVar(&s.Depth, "depth", 1_000_000, "the `number` of items in the deep queue")
	f.IntVar(&s.Slots, "slots", 200, "the `number` of handlers that run at once")
	f.Float64Var(&s.Seconds, "seconds", 10, "the length of each pickup and idle measurement, in `seconds`")
	f.BoolVar(&s.middle, "middle", false, "three rounds meant for 20 minutes on two quiet cores: fewer items, a queue of 300,000, and 4 seconds for each pickup and idle measurement")
	f.BoolVar(&s.quick, "quick", false, "one small round, to see that everything works: the figures mean nothing")
	f.StringVar(&s.out, "out", "", "write the report and the folder plots to this `folder`, instead of the documentation")
	f.StringVar(&s.dir, "dir", "", "keep the servers' data below this `folder`, on the disk to measure (default: that of temporary files)")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("there are no arguments, only flags: %q", f.Args())
	}
	if s.quick && s.middle {
		return s, errors.New("--quick and --middle exclude each other")
	}
	if s.middle {
		s.rounds = 3
		s.Options = Options{Items: 20_000, Depth: 300_000, Slots: 200, Rates: s.Rates, Seconds: 4}
	}
	if s.quick {
		s.rounds = 1
		s.Options = Options{Items: 500, Depth: 2000, Slots: 50, Rates: []int{300}, Seconds: 0.5}
	}
	if s.rounds < 1 || s.Items < 1 || s.Depth < 1 || s.Slots < 1 || s.Seconds <= 0 {
		return s, errors.New("--rounds, --items, --depth, --slots and --seconds must be more than zero")
	}
	return s, nil
}

// Sample is one measurement.
type Sample struct {
	System string // About.ID
	Load   string
	Case   Case
	Values Values
	Usage  measure.Usage
}

// run is the whole command.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	set, err := parse(args, out)
	if err != nil {
		return err
	}
	all, err := systemsNamed(set.only)
	if err != nil {
		return err
	}
	todo, err := loadsNamed(set.loads)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(set.dir, "streamwright-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL may run as another user
		return err
	}
	tools, err := prepareTools(ctx, dir, all)
	if err != nil {
		return err
	}
	b := &bench{set: set, dir: dir, tools: tools, out: out}
	rep := newReport(ctx, set, all, tools, dir)
	page, plots := filepath.Join(tools.Root, "docs", "operate", "COMPARISON.md"), "../plots"
	if set.out != "" {
		page, plots = filepath.Join(set.out, "COMPARISON.md"), "plots"
	}
	// Written after each round, also after one that is cut short.
	for round := range set.rounds {
		err := b.round(ctx, round, todo, all)
		rep.samples, rep.failed, rep.rounds, rep.took = b.samples, b.failed, round+1, time.Since(rep.began)
		if err := errors.Join(err, rep.write(page, plots)); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "written:", page)
	if len(b.failed) > 0 {
		return fmt.Errorf("%d measurements failed: the page says which", len(b.failed))
	}
	return nil
}

// bench runs measurements.
type bench struct {
	set     settings
	dir     string
	tools   *Tools
	out     io.Writer
	samples []Sample
	failed  []string // measurements, and why
}

// round measures everything once. The systems take turns within each case, and another
// one begins in each round. A measurement that fails does not end it: the page says so.
func (b *bench) round(ctx context.Context, round int, todo []load, all []System) error {
	for _, l := range todo {
		if l.deep() && round > 0 {
			continue
		}
		for _, c := range l.cases(b.set.Options) {
			for i := range all {
				s := all[(i+round)%len(all)]
				sample, err := b.measure(ctx, s, l, c)
				said := sample.line()
				switch {
				case ctx.Err() != nil:
					return err
				case err != nil:
					said = "failed: " + strings.Join(strings.Fields(err.Error()), " ")
					b.failed = append(b.failed, fmt.Sprintf("%s, %s: %s", s.About().Name, c.Label, said))
				default:
					b.samples = append(b.samples, sample)
				}
				fmt.Fprintf(b.out, "round %d  %-27s %-27s %s\n", round+1, c.Label, s.About().Name, said)
			}
		}
	}
	return nil
}

// line is a sample in short.
func (s Sample) line() string {
	var out []string
	for _, k := range []string{valueRate, valueFill, valueP50, valueP99, valueMax, valueMore} {
		if v, ok := s.Values[k]; ok && (k != valueMore || v > 0) {
			out = append(out, fmt.Sprintf("%s %s", k, measure.Figure(v)))
		}
	}
	out = append(out, fmt.Sprintf("cpu %.2f+%.2f s, others %.0f %%", s.Usage.Server.CPU.Seconds(), s.Usage.Client.CPU.Seconds(), 100*s.Usage.Others))
	return strings.Join(out, "  ")
}

// measure starts a system, has a client put one load on it, and ends it.
func (b *bench) measure(ctx context.Context, s System, l load, c Case) (sample Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	dir, err := os.MkdirTemp(b.dir, s.About().ID+"-")
	if err != nil {
		return sample, err
	}
	h := &Host{Dir: dir, Tools: b.tools}
	if b.tools.PGUser != nil {
		err = os.Chmod(dir, 0o711)
	}
	var before measure.Counters // what the servers had written before the measurement
	defer func() {
		life, e := h.End()
		sample.Usage.Server.Written = life.Minus(before).Written
		err = errors.Join(err, e, os.RemoveAll(dir))
	}()
	if err != nil {
		return sample, err
	}
	addr, err := h.Start(ctx, s)
	if err != nil {
		return sample, fmt.Errorf("start: %w", err)
	}
	client, err := startClient(ctx, order{s.About().ID, l.name, addr, c, b.set.Options})
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, client.end(err != nil)) }()
	sample = Sample{System: s.About().ID, Load: l.name, Case: c}
	if _, err := client.values(); err != nil {
		return sample, err
	}
	m, until, err := measure.StartMeter(client.cmd.Process.Pid, h.pids()...)
	if err != nil {
		return sample, err
	}
	before = until
	if err = client.goOn(); err == nil {
		sample.Values, err = client.values()
	}
	usage, e := m.Stop()
	sample.Usage = usage
	if err = errors.Join(err, e); err != nil {
		return sample, err
	}
	return sample, client.goOn()
}
