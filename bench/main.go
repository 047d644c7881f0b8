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
// A system is one file that makes a System and its measure.Queue, a load a line of
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
	"strings"
	"syscall"
	"time"
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
	flags            string // as they were given
	only, loads, out string
	rounds           int
	middle, quick    bool
}

func parse(args []string, out io.Writer) (settings, error) {
	s := settings{Options: Options{Rates: []int{100, 300, 1000, 3000}}, flags: strings.Join(args, " ")}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	var ids, names []string
	for _, one := range systems() {
		ids = append(ids, one.ID)
	}
	for _, one := range loads {
		names = append(names, one.name)
	}
	f.StringVar(&s.only, "only", "", "compare only these `systems`, separated by commas: "+strings.Join(ids, ", ")+", or by product: river")
	f.StringVar(&s.loads, "loads", "", "measure only these `loads`, separated by commas: "+strings.Join(names, ", "))
	f.IntVar(&s.rounds, "rounds", 3, "measure everything so many `times`; the deep queue once")
	f.IntVar(&s.Items, "items", 50_000, "the `number` of items of a throughput measurement; bulk and burn-down have twice as many")
	f.IntVar(&s.Depth, "depth", 1_000_000, "the `number` of items in the deep queue")
	f.IntVar(&s.Slots, "slots", 200, "the `number` of handlers that run at once")
	f.Float64Var(&s.Seconds, "seconds", 10, "the length of each pickup and idle measurement, in `seconds`")
	f.BoolVar(&s.middle, "middle", false, "three rounds meant for 20 minutes on two quiet cores: fewer items, a queue of 300,000, and 4 seconds for each pickup and idle measurement")
	f.BoolVar(&s.quick, "quick", false, "one small round, to see that everything works: the figures mean nothing")
	f.StringVar(&s.out, "out", "", "write the report and the folder plots to this `folder`, instead of the documentation")
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
	System string // its ID
	Case   Case
	Values Values
	Usage  Usage
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
	dir, err := os.MkdirTemp("", "streamwright-bench-")
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
	began, r := time.Now(), newReport(ctx, set, all, tools)
	// Written after each round, also after one that is cut short.
	for round := range set.rounds {
		err := r.round(ctx, round, todo, tools, out)
		r.Took = time.Since(began).Round(time.Second)
		if err := errors.Join(err, r.write()); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "written:", r.page)
	if len(r.Failed) > 0 {
		return fmt.Errorf("%d measurements failed: the page says which", len(r.Failed))
	}
	return nil
}

// round measures everything once. The systems take turns within each case, and another
// one begins in each round. A measurement that fails does not end it: the page says so.
func (r *report) round(ctx context.Context, round int, todo []load, tools *Tools, out io.Writer) error {
	for _, l := range todo {
		if l.name == "depth" && round > 0 {
			continue // it takes long
		}
		for _, c := range l.cases(r.Options) {
			for i := range r.Systems {
				s := r.Systems[(i+round)%len(r.Systems)]
				sample, err := r.measure(ctx, tools, s, l, c)
				said := fmt.Sprintf("%v  cpu %.2f+%.2f s, others %.0f %%", sample.Values, sample.Usage.Server.CPU.Seconds(), sample.Usage.Client.CPU.Seconds(), 100*sample.Usage.Others)
				switch {
				case ctx.Err() != nil:
					return err
				case err != nil:
					said = "failed: " + strings.Join(strings.Fields(err.Error()), " ")
					r.Failed = append(r.Failed, fmt.Sprintf("%s, %s: %s", s.Name, c.Label, said))
				default:
					r.samples = append(r.samples, sample)
				}
				fmt.Fprintf(out, "round %d  %-27s %-27s %s\n", round+1, c.Label, s.Name, said)
			}
		}
	}
	return nil
}

// measure starts a system, has a client put one load on it, and ends it.
func (r *report) measure(ctx context.Context, tools *Tools, s System, l load, c Case) (sample Sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	dir, err := os.MkdirTemp(tools.dir, s.ID+"-")
	if err != nil {
		return sample, err
	}
	h := &Host{Dir: dir, Tools: tools}
	var before Use // of the server, until the measurement
	defer func() {
		life, e := h.End()
		sample.Usage.Server.Written = life.Written - before.Written
		err = errors.Join(err, e, os.RemoveAll(dir))
	}()
	if err := os.Chmod(dir, 0o711); err != nil { // as its parent
		return sample, err
	}
	addr, err := h.Start(ctx, s)
	if err != nil {
		return sample, fmt.Errorf("start: %w", err)
	}
	client, err := startClient(ctx, order{s.ID, l.name, addr, c, r.Options})
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, client.end(err != nil)) }()
	sample = Sample{System: s.ID, Case: c}
	if _, err := client.values(); err != nil {
		return sample, err
	}
	m, err := startMeter(client.cmd.Process.Pid, h.cmd.Process.Pid)
	if err != nil {
		return sample, err
	}
	before = m.from[1]
	if err = client.goOn(); err == nil {
		sample.Values, err = client.values()
	}
	usage, e := m.stop()
	sample.Usage = usage
	if err = errors.Join(err, e); err != nil {
		return sample, err
	}
	return sample, client.goOn()
}
