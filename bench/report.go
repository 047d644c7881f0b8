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
)

// noisy is the share of the machine's CPU that others may have had, in the median
// measurement, for a run to count as quiet.
const noisy = 0.05

//go:embed page.md
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

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
	section strings.Builder
}

func newReport(ctx context.Context, set settings, all []System, t *Tools, dir string) *report {
	r := &report{set: set, began: time.Now(), machine: machineFacts(ctx, t, dir)}
	for _, s := range all {
		a := s.About()
		switch a.Product {
		case "River":
			a.Versions = append(a.Versions, ran(ctx, filepath.Join(t.PG, "postgres"), "--version"))
		case "Asynq":
			a.Versions = append(a.Versions, ran(ctx, t.Redis, "--version"))
		case "JetStream":
			a.Versions = append(a.Versions, ran(ctx, t.NATS, "--version"))
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
	model := "unknown"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(l, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	facts := []string{fmt.Sprintf("%d CPUs (%s), %s/%s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH)}
	if m, err := fields("/proc/meminfo", "MemTotal"); err == nil {
		facts = append(facts, fmt.Sprintf("%s GiB of memory", figure(float64(m[0])/mib)))
	}
	facts = append(facts, "Linux "+ran(ctx, "uname", "-r"), "built with "+runtime.Version())
	if rate, err := syncRate(dir); err == nil {
		facts = append(facts, fmt.Sprintf("a 4 KiB write to the data's folder is synced %s times a second, one after the other", figure(rate)))
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
	return perSecond(n, start), nil
}

// of collects a line's figures for a system.
func (r *report) of(l line, id string) spread {
	var vs []float64
	for _, s := range r.samples {
		if s.System == id && s.Load == l.load && s.Case.Label == l.label {
			if v, ok := l.value(s); ok {
				vs = append(vs, v)
			}
		}
	}
	return spreadOf(vs)
}

// has reports whether anything was measured for a line.
func (r *report) has(l line) bool {
	return slices.ContainsFunc(r.systems, func(a About) bool { return r.of(l, a.ID).n > 0 })
}

func (r *report) at(d Durability) (out []About) {
	for _, a := range r.systems {
		if a.Durability == d {
			out = append(out, a)
		}
	}
	return out
}

func (r *report) say(format string, args ...any) { fmt.Fprintf(&r.section, format+"\n", args...) }

// page is what the template shows.
type page struct {
	Flags, Began, Took  string
	Noisy               bool
	Others, Worst       string // percent
	Machine, Failed     []string
	Fsync, Interval     string // tables and plots
	Ahead               []string
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
	o := spreadOf(others)
	p := page{
		Flags: r.set.flags(r.rounds), Began: r.began.UTC().Format("2006-01-02 15:04 UTC"), Took: r.took.Round(time.Second).String(),
		Noisy: o.mid > noisy, Others: figure(100 * o.mid), Worst: figure(100 * o.high), Machine: r.machine, Failed: r.failed, Ahead: r.ahead(),
		Options: r.set.Options, Callers: bulkCallers, Submitters: submitters, Batch: figure(bulkBatch), Again: int(again), Systems: r.systems,
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

var titles = map[Durability]string{Fsync: "durable when acknowledged", Interval: "durable within about a second"}

// tables has the tables and plots of one durability.
func (r *report) tables(d Durability) (string, error) {
	r.section.Reset()
	o, through, costs := r.set.Options, throughputLines(r.set.Options), costLines()
	r.table("Items a second", d, through, false)
	if err := r.bars(d, "throughput", "Items a second", through); err != nil {
		return "", err
	}
	r.pickups(d)
	if err := r.curves(d); err != nil {
		return "", err
	}
	r.table("Cost", d, costs, true)
	if err := r.bars(d, "cost", "Cost (less is better)", costs); err != nil {
		return "", err
	}
	r.table(fmt.Sprintf("A queue of %s items", figure(float64(o.Depth))), d, depthLines(o), true)
	return strings.TrimSuffix(r.section.String(), "\n"), nil
}

// table has a row for each line that was measured.
func (r *report) table(title string, d Durability, lines []line, units bool) {
	all := r.at(d)
	var rows []string
	for _, l := range lines {
		if !r.has(l) {
			continue
		}
		row := "| " + l.name
		if units {
			row += ", " + l.unit
		}
		for _, a := range all {
			row += " | " + r.of(l, a.ID).String()
		}
		rows = append(rows, row+" |")
	}
	if len(rows) == 0 {
		return
	}
	r.say("| %s%s |\n|---%s|", title, names(all), strings.Repeat("|---", len(all)))
	r.say("%s\n", strings.Join(rows, "\n"))
}

func names(all []About) (row string) {
	for _, a := range all {
		row += " | " + a.Name
	}
	return row
}

// pickups has the latencies, p50 / p99 / highest.
func (r *report) pickups(d Durability) {
	o, all := r.set.Options, r.at(d)
	p50, p99, most := pickupLines(o, valueP50), pickupLines(o, valueP99), pickupLines(o, valueMax)
	if len(p50) == 0 || !r.has(p50[0]) {
		return
	}
	r.say("| Pickup, ms: p50 / p99 / highest%s |\n|---%s|", names(all), strings.Repeat("|---", len(all)))
	for i, l := range p50 {
		row := "| " + l.label
		for _, a := range all {
			row += fmt.Sprintf(" | %s / %s / %s", r.of(l, a.ID), r.of(p99[i], a.ID), r.of(most[i], a.ID))
		}
		r.say("%s |", row)
	}
	r.say("")
}

func (r *report) series(d Durability, lines []line) (out []series) {
	for _, a := range r.at(d) {
		s := series{name: a.Name, colour: colours[a.Product]}
		for _, l := range lines {
			s.values = append(s.values, r.of(l, a.ID))
		}
		out = append(out, s)
	}
	return out
}

func (r *report) plot(name, title, text string) error {
	r.say("![%s](%s/%s)\n", title, r.link, name)
	return os.WriteFile(filepath.Join(r.plots, name), []byte(text), 0o644)
}

func (r *report) bars(d Durability, kind, title string, lines []line) error {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return !r.has(l) })
	if len(lines) == 0 {
		return nil
	}
	var categories, units []string
	for _, l := range lines {
		categories, units = append(categories, l.name), append(units, l.unit)
	}
	title += ", " + titles[d]
	return r.plot(fmt.Sprintf("%s-%s.svg", kind, d), title, bars(title, categories, units, r.series(d, lines)))
}

func (r *report) curves(d Durability) error {
	o := r.set.Options
	p50, p99 := pickupLines(o, valueP50), pickupLines(o, valueP99)
	if len(p99) == 0 || !r.has(p99[0]) {
		return nil
	}
	title := "Pickup by rate, " + titles[d]
	return r.plot(fmt.Sprintf("pickup-%s.svg", d), title, curves(title, o.Rates, r.series(d, p50), r.series(d, p99)))
}

// ahead lists every line on which another work queue did better than Streamwright.
func (r *report) ahead() (rows []string) {
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
				if a.Product == "JetStream" || them.n == 0 || us.n == 0 || us.mid == them.mid || (them.mid < us.mid) != l.lessIsMore {
					continue
				}
				rows = append(rows, fmt.Sprintf("| %s, %s | %s: %s | %s: %s |", l.name, l.unit, a.Name, figure(them.mid), as[ours].Name, figure(us.mid)))
			}
		}
	}
	return rows
}
