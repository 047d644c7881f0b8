package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/prometheus/procfs"

	"github.com/streamwright/streamwright/internal/measure"
)

// noisy is the share of the machine's CPU that others may have had, in the median
// measurement, for a run to count as quiet.
const noisy = 0.05

//go:embed page.md
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// table is a table of the page, and a plot.
type table struct {
	title, plot string // plot: the beginning of its file's name; empty: none
	lines       []line
}

// line is one figure of the comparison, for every system, from the samples of a case.
type line struct {
	name, unit, label string
	value             func(Sample) float64 // 0 is shown as well
}

// lessIsMore reports whether less is better.
func (l line) lessIsMore() bool { return l.unit != "items/s" }

// named returns a value of a sample.
func named(key string) func(Sample) float64 { return func(s Sample) float64 { return s.Values[key] } }

func serverPeak(s Sample) float64 { return float64(s.Usage.Server.Peak) / mib }

// sides are the processes that are measured.
var sides = []struct {
	name string
	cpu  func(Sample) float64 // in seconds
}{
	{"servers", func(s Sample) float64 { return s.Usage.Server.CPU.Seconds() }},
	{"client", func(s Sample) float64 { return s.Usage.Client.CPU.Seconds() }},
}

// tables returns the tables of a run.
func tables(o Options) []table {
	const endToEnd, burnDown, idle, depth = "End to end", "Burn-down of a backlog", "Idle", "Depth"
	throughput, pickup, cost := table{"Throughput", "throughput", nil}, table{"Pickup", "pickup", nil}, table{"Cost", "cost", nil}
	for _, l := range loads {
		for _, c := range l.cases(o) {
			switch l.name {
			case "pickup":
				for _, key := range []string{valueP50, valueP99, valueMax} {
					pickup.lines = append(pickup.lines, line{c.Label + ", " + key, "ms", c.Label, named(key)})
				}
			case "bulk", "single", "endtoend", "burndown":
				throughput.lines = append(throughput.lines, line{c.Label, "items/s", c.Label, named(valueRate)})
			}
		}
	}
	for _, of := range sides {
		cpu := "CPU of the " + of.name + ", "
		each := func(s Sample) float64 { return 1e6 * of.cpu(s) / float64(s.Case.Items) }
		cost.lines = append(cost.lines, line{cpu + "end to end", "ms per 1,000 items", endToEnd, each}, line{cpu + "burn-down", "ms per 1,000 items", burnDown, each},
			line{cpu + "idle", "% of a core", idle, func(s Sample) float64 { return 100 * of.cpu(s) / s.Values[valueSeconds] }})
	}
	cost.lines = append(
		cost.lines,
		line{"Written to disk, end to end", "MiB per 1,000 items", endToEnd, func(s Sample) float64 { return 1000 * float64(s.Usage.Server.Written) / mib / float64(s.Case.Items) }},
		line{"Peak memory of the servers, end to end", "MiB", endToEnd, serverPeak},
		line{"Peak memory of the client, end to end", "MiB", endToEnd, func(s Sample) float64 { return float64(s.Usage.Client.Peak) / mib }},
	)
	return []table{throughput, pickup, cost, {"A queue of " + measure.Figure(float64(o.Depth)) + " items", "", []line{
		{"Filling it", "items/s", depth, named(valueFill)},
		{"The first " + measure.Figure(float64(min(o.Items, o.Depth))) + " items out of it", "items/s", depth, named(valueRate)},
		{"Peak memory of the servers", "MiB", depth, serverPeak},
		{"Peak memory per 1,000 queued items", "KiB", depth, func(s Sample) float64 { return 1024 * 1000 * serverPeak(s) / float64(o.Depth) }},
	}}}
}

// report writes what was measured. The template has its exported fields.
type report struct {
	Options
	Flags             string
	Began             string
	Systems           []System
	Machine           []string // facts
	Failed            []string // measurements, and why
	Fsync, Interval   string   // tables and plots
	Ahead             string
	Took              time.Duration
	Noisy             bool
	Others, Worst     string // percent
	Again, Submitters int    // items that were handled more than once
	Callers           int
	Batch             string

	samples []Sample
	page    string // the file to write
	plots   string // the folder of the plots, from the page's
}

func newReport(ctx context.Context, set settings, all []System, t *Tools) *report {
	r := &report{
		Options: set.Options, Flags: set.flags, Began: time.Now().UTC().Format("2006-01-02 15:04 UTC"), Machine: machineFacts(ctx, t),
		Submitters: submitters, Callers: measure.BulkCallers, Batch: measure.Figure(measure.BulkBatch),
		page: filepath.Join(t.Root, "docs", "operate", "COMPARISON.md"), plots: "../plots",
	}
	if set.out != "" {
		r.page, r.plots = filepath.Join(set.out, "COMPARISON.md"), "plots"
	}
	for _, s := range all {
		if s.Product != "Streamwright" {
			s.Versions = append(s.Versions, ran(ctx, t.Servers[s.Product], "--version"))
		}
		r.Systems = append(r.Systems, s)
	}
	return r
}

// ran is what a program writes, up to its first three words.
func ran(ctx context.Context, program string, args ...string) string {
	text, err := output(ctx, "", program, args...)
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	words := strings.Fields(text)
	return strings.Join(words[:min(3, len(words))], " ")
}

func machineFacts(ctx context.Context, t *Tools) []string {
	model, memory := "unknown", "an unknown amount"
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			model = cpus[0].ModelName
		}
		if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
			memory = measure.Figure(float64(*m.MemTotalBytes)/(1<<30)) + " GiB"
		}
	}
	facts := []string{
		fmt.Sprintf("%d CPUs (%s), %s/%s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH), memory + " of memory",
		"Linux " + ran(ctx, "uname", "-r"), "built with " + runtime.Version(),
	}
	if rate, err := syncRate(t.dir); err == nil {
		facts = append(facts, fmt.Sprintf("a 4 KiB write to the data's folder is synced %s times a second, one after the other", measure.Figure(rate)))
	}
	if commit, err := output(ctx, t.Root, "git", "describe", "--always", "--dirty"); err == nil {
		facts = append(facts, "commit "+commit)
	}
	return facts
}

// syncRate is how often a second a small write can be made durable in a folder.
func syncRate(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 4096)
	start, n := time.Now(), 0
	for ; n < 5000 && time.Since(start) < time.Second; n++ {
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
	}
	return measure.PerSecond(n, start), nil
}

// of collects a line's figures for a system.
func (r *report) of(l line, system System) spread {
	var vs []float64
	for _, s := range r.samples {
		if s.System == system.ID && s.Case.Label == l.label {
			vs = append(vs, l.value(s))
		}
	}
	return spreadOf(vs)
}

// write writes the page, and the plots.
func (r *report) write() (err error) {
	var others []float64
	r.Again = 0
	for _, s := range r.samples {
		others = append(others, s.Usage.Others)
		r.Again += int(s.Values[valueMore])
	}
	o := spreadOf(others)
	r.Noisy, r.Others, r.Worst = o.mid > noisy, measure.Figure(100*o.mid), measure.Figure(100*o.high)
	if err := os.MkdirAll(filepath.Join(filepath.Dir(r.page), r.plots), 0o755); err != nil {
		return err
	}
	r.Ahead = ""
	if r.Fsync, err = r.tables(Fsync, "durable when acknowledged"); err != nil {
		return err
	}
	if r.Interval, err = r.tables(Interval, "durable within about a second"); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, r); err != nil {
		return err
	}
	return os.WriteFile(r.page, text.Bytes(), 0o644)
}

// tables returns the tables of one durability, writes their plots, and adds to Ahead each line
// on which another work queue did better than Streamwright. Medians that are shown alike are a tie.
func (r *report) tables(d Durability, what string) (text string, err error) {
	var systems []System
	var names []string
	for _, s := range r.Systems {
		if s.Durability == d {
			systems, names = append(systems, s), append(names, s.Name)
		}
	}
	for _, t := range tables(r.Options) {
		t.lines = slices.DeleteFunc(t.lines, func(l line) bool {
			return !slices.ContainsFunc(systems, func(s System) bool { return r.of(l, s).n > 0 })
		})
		if len(t.lines) == 0 {
			continue
		}
		text += measure.Head(append([]string{t.title}, names...)...)
		for _, l := range t.lines {
			cells := []string{l.name + ", " + l.unit}
			for _, s := range systems {
				us, them := r.of(l, systems[0]), r.of(l, s)
				ours, theirs := measure.Figure(us.mid), measure.Figure(them.mid)
				cells = append(cells, them.String())
				if systems[0].Product == "Streamwright" && s.Product != "JetStream" && us.n > 0 && them.n > 0 && theirs != ours && (them.mid < us.mid) == l.lessIsMore() {
					r.Ahead += measure.Row(cells[0], s.Name+": "+theirs, names[0]+": "+ours)
				}
			}
			text += measure.Row(cells...)
		}
		text += "\n"
		if t.plot != "" {
			title, file := t.title+", "+what, fmt.Sprintf("%s/%s-%s.svg", r.plots, t.plot, d)
			text += fmt.Sprintf("![%s](%s)\n\n", title, file)
			if err := os.WriteFile(filepath.Join(filepath.Dir(r.page), file), []byte(bars(title, t.lines, systems, r.of)), 0o644); err != nil {
				return "", err
			}
		}
	}
	return strings.TrimSuffix(text, "\n"), nil
}
