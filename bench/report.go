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

// line is one figure of the comparison, for every system.
type line struct {
	name, unit string
	// load and label choose the samples, value a figure of each; 0 is shown as well.
	load, label string
	value       func(Sample) float64
	lessIsMore  bool
}

// named returns a value of a sample.
func named(key string) func(Sample) float64 { return func(s Sample) float64 { return s.Values[key] } }

func serverPeak(s Sample) float64 { return float64(s.Usage.ServerPeak) / measure.MiB }

// throughputLines, pickupLines, costLines and depthLines are the lines of the tables.
func throughputLines(o Options) (ls []line) {
	for _, l := range loads[:4] {
		for _, c := range l.cases(o) {
			ls = append(ls, line{c.Label, "items/s", l.name, c.Label, named(valueRate), false})
		}
	}
	return ls
}

func pickupLines(o Options, key string) (ls []line) {
	for _, c := range pickupCases(o) {
		ls = append(ls, line{"Pickup at " + c.Label + ", " + key, "ms", "pickup", c.Label, named(key), true})
	}
	return ls
}

func costLines() (ls []line) {
	sides := []struct {
		name string
		cpu  func(Sample) float64 // in seconds
	}{
		{"servers", func(s Sample) float64 { return s.Usage.Server.CPU.Seconds() }},
		{"client", func(s Sample) float64 { return s.Usage.Client.CPU.Seconds() }},
	}
	for _, l := range []struct{ load, label, name string }{{"endtoend", "End to end", "end to end"}, {"burndown", "Burn-down of a backlog", "burn-down"}} {
		for _, of := range sides {
			ls = append(ls, line{"CPU of the " + of.name + ", " + l.name, "ms per 1,000 items", l.load, l.label, func(s Sample) float64 { return 1e6 * of.cpu(s) / float64(s.Case.Items) }, true})
		}
	}
	const load, label = "endtoend", "End to end"
	ls = append(
		ls,
		line{"Written to disk, end to end", "MiB per 1,000 items", load, label, func(s Sample) float64 {
			return 1000 * float64(s.Usage.Server.Written) / measure.MiB / float64(s.Case.Items)
		}, true},
		line{"Peak memory of the servers, end to end", "MiB", load, label, serverPeak, true},
		line{"Peak memory of the client, end to end", "MiB", load, label, func(s Sample) float64 { return float64(s.Usage.ClientPeak) / measure.MiB }, true},
	)
	for _, of := range sides {
		ls = append(ls, line{"CPU of the " + of.name + ", idle", "% of a core", "idle", "Idle", func(s Sample) float64 { return 100 * of.cpu(s) / s.Values[valueSeconds] }, true})
	}
	return ls
}

func depthLines(o Options) []line {
	const load, label = "depth", "Depth"
	return []line{
		{"Filling it", "items/s", load, label, named(valueFill), false},
		{"The first " + measure.Figure(float64(min(o.Items, o.Depth))) + " items out of it", "items/s", load, label, named(valueRate), false},
		{"Peak memory of the servers", "MiB", load, label, serverPeak, true},
		{"Peak memory per 1,000 queued items", "KiB", load, label, func(s Sample) float64 { return 1024 * 1000 * serverPeak(s) / float64(o.Depth) }, true},
	}
}

// report writes what was measured.
type report struct {
	set     settings
	systems []About
	samples []Sample
	failed  []string
	rounds  int // that the samples are of
	took    time.Duration
	began   time.Time
	machine []string // facts
	link    string   // from the page to the folder of the plots
	plots   string   // that folder
}

func newReport(ctx context.Context, set settings, all []System, t *Tools, dir string) *report {
	r := &report{set: set, began: time.Now(), machine: machineFacts(ctx, t, dir)}
	servers := map[string]string{"River": filepath.Join(t.PG, "postgres"), "Asynq": t.Redis, "JetStream": t.NATS}
	for _, s := range all {
		a := s.About()
		if server := servers[a.Product]; server != "" {
			a.Versions = append(a.Versions, ran(ctx, server, "--version"))
		}
		r.systems = append(r.systems, a)
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

func machineFacts(ctx context.Context, t *Tools, dir string) []string {
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
	if rate, err := syncRate(dir); err == nil {
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
func (r *report) of(l line, id string) measure.Spread {
	var vs []float64
	for _, s := range r.samples {
		if s.System == id && s.Load == l.load && s.Case.Label == l.label {
			vs = append(vs, l.value(s))
		}
	}
	return measure.SpreadOf(vs)
}

// measured returns the lines for which there is a figure.
func (r *report) measured(lines []line) (out []line) {
	for _, l := range lines {
		if slices.ContainsFunc(r.systems, func(a About) bool { return r.of(l, a.ID).N > 0 }) {
			out = append(out, l)
		}
	}
	return out
}

func (r *report) at(d Durability) (out []About) {
	for _, a := range r.systems {
		if a.Durability == d {
			out = append(out, a)
		}
	}
	return out
}

// page is what the template shows.
type page struct {
	Flags, Began, Took  string
	Noisy               bool
	Others, Worst       string // percent
	Machine, Failed     []string
	Fsync, Interval     string // tables and plots
	Ahead               string
	Options             Options
	Callers, Submitters int
	Batch               string
	Again               int // items that were handled more than once
	Systems             []About
}

// write writes the page, and the plots into a folder that is given relative to it.
func (r *report) write(file, link string) error {
	r.link, r.plots = link, filepath.Join(filepath.Dir(file), link)
	if err := os.MkdirAll(r.plots, 0o755); err != nil {
		return err
	}
	var others []float64
	again := 0.0
	for _, s := range r.samples {
		others = append(others, s.Usage.Others)
		again += s.Values[valueMore]
	}
	o := measure.SpreadOf(others)
	p := page{
		Flags: r.set.flags(r.rounds), Began: r.began.UTC().Format("2006-01-02 15:04 UTC"), Took: r.took.Round(time.Second).String(),
		Noisy: o.Mid > noisy, Others: measure.Figure(100 * o.Mid), Worst: measure.Figure(100 * o.High), Machine: r.machine, Failed: r.failed, Ahead: r.ahead(),
		Options: r.set.Options, Callers: measure.BulkCallers, Submitters: submitters, Batch: measure.Figure(measure.BulkBatch), Again: int(again), Systems: r.systems,
	}
	var err error
	if p.Fsync, err = r.tables(Fsync); err != nil {
		return err
	}
	if p.Interval, err = r.tables(Interval); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := pageTemplate.Execute(&text, p); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// flags are those that repeat a run of so many rounds.
func (s settings) flags(rounds int) string {
	f := fmt.Sprintf("--rounds %d --items %d --depth %d --slots %d --seconds %g", rounds, s.Items, s.Depth, s.Slots, s.Seconds)
	if s.only != "" {
		f += " --only " + s.only
	}
	if s.loads != "" {
		f += " --loads " + s.loads
	}
	return f
}

// tables returns the tables of one durability, and writes their plots.
func (r *report) tables(d Durability) (string, error) {
	o, text := r.set.Options, ""
	what := map[Durability]string{Fsync: ", durable when acknowledged", Interval: ", durable within about a second"}[d]
	plot := func(kind, title, svg string) error {
		name := fmt.Sprintf("%s-%s.svg", kind, d)
		text += fmt.Sprintf("![%s](%s/%s)\n\n", title, r.link, name)
		return os.WriteFile(filepath.Join(r.plots, name), []byte(svg), 0o644)
	}
	bars := func(kind, title string, lines []line) error {
		var categories, units []string
		for _, l := range lines {
			categories, units = append(categories, l.name), append(units, l.unit)
		}
		return plot(kind, title+what, measure.Bars(title+what, categories, units, r.series(d, lines)))
	}
	if lines := r.measured(throughputLines(o)); len(lines) > 0 {
		text += r.table("Items a second", d, lines, func(i int) string { return lines[i].name }, lines)
		if err := bars("throughput", "Items a second", lines); err != nil {
			return "", err
		}
	}
	p50, p99 := pickupLines(o, valueP50), pickupLines(o, valueP99)
	if len(r.measured(p50)) > 0 {
		text += r.table("Pickup, ms: p50 / p99 / highest", d, p50, func(i int) string { return p50[i].label }, p50, p99, pickupLines(o, valueMax))
		title := "Pickup by rate" + what
		if err := plot("pickup", title, measure.Curves(title, o.Rates, r.series(d, p50), r.series(d, p99))); err != nil {
			return "", err
		}
	}
	if lines := r.measured(costLines()); len(lines) > 0 {
		text += r.table("Cost", d, lines, func(i int) string { return lines[i].name + ", " + lines[i].unit }, lines)
		if err := bars("cost", "Cost (less is better)", lines); err != nil {
			return "", err
		}
	}
	if lines := r.measured(depthLines(o)); len(lines) > 0 {
		text += r.table(fmt.Sprintf("A queue of %s items", measure.Figure(float64(o.Depth))), d, lines, func(i int) string { return lines[i].name + ", " + lines[i].unit }, lines)
	}
	return strings.TrimSuffix(text, "\n"), nil
}

// table has a row for each line. A cell has the figure of each of several sets of lines.
func (r *report) table(title string, d Durability, lines []line, name func(i int) string, sets ...[]line) string {
	head := []string{title}
	for _, a := range r.at(d) {
		head = append(head, a.Name)
	}
	text := measure.Head(head...)
	for i := range lines {
		row := []string{name(i)}
		for _, a := range r.at(d) {
			var cell []string
			for _, set := range sets {
				cell = append(cell, r.of(set[i], a.ID).String())
			}
			row = append(row, strings.Join(cell, " / "))
		}
		text += measure.Row(row...)
	}
	return text + "\n"
}

// colours of the products, which are told apart without colour by their order.
var colours = map[string]string{"Streamwright": "#2563eb", "River": "#059669", "Asynq": "#dc2626", "JetStream": "#6b7280"}

func (r *report) series(d Durability, lines []line) (out []measure.Series) {
	for _, a := range r.at(d) {
		s := measure.Series{Name: a.Name, Colour: colours[a.Product]}
		for _, l := range lines {
			s.Values = append(s.Values, r.of(l, a.ID))
		}
		out = append(out, s)
	}
	return out
}

// ahead lists every line on which another work queue did better than Streamwright.
func (r *report) ahead() (rows string) {
	o := r.set.Options
	all := slices.Concat(throughputLines(o), pickupLines(o, valueP50), pickupLines(o, valueP99), costLines(), depthLines(o))
	for _, d := range []Durability{Fsync, Interval} {
		as := r.at(d)
		ours := slices.IndexFunc(as, func(a About) bool { return a.Product == "Streamwright" })
		if ours < 0 {
			continue
		}
		for _, l := range all {
			us := r.of(l, as[ours].ID)
			for _, a := range as {
				them := r.of(l, a.ID)
				if a.Product == "JetStream" || them.N == 0 || us.N == 0 || us.Mid == them.Mid || (them.Mid < us.Mid) != l.lessIsMore {
					continue
				}
				rows += measure.Row(l.name+", "+l.unit, a.Name+": "+measure.Figure(them.Mid), as[ours].Name+": "+measure.Figure(us.Mid))
			}
		}
	}
	return rows
}
