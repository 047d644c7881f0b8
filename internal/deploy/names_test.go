package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/api"
)

const root = "../.."

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// alert is a rule of alerts.yml.
type alert struct{ Name, Expr, For, Severity, Summary, Description, Runbook string }

// alerts reads alerts.yml, which keeps to one layout; promtool says whether it is
// good YAML.
func alerts(t *testing.T) (list []alert) {
	t.Helper()
	unquote := func(s string) string {
		if len(s) > 1 && s[0] == '\'' {
			return strings.ReplaceAll(s[1:len(s)-1], "''", "'")
		}
		return s
	}
	for line := range strings.Lines(read(t, "deploy", "prometheus", "alerts.yml")) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		if key == "- alert" {
			list = append(list, alert{Name: value})
			continue
		}
		if len(list) == 0 {
			continue
		}
		a := &list[len(list)-1]
		for name, field := range map[string]*string{"expr": &a.Expr, "for": &a.For, "severity": &a.Severity, "summary": &a.Summary, "description": &a.Description, "runbook_url": &a.Runbook} {
			if key == name {
				*field = unquote(value)
			}
		}
	}
	if len(list) < 30 {
		t.Fatalf("only %d alerts could be read", len(list))
	}
	return list
}

// dashboard are the expressions of the dashboard and of its variables.
func dashboard(t *testing.T) (exprs []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Type    string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "streamwright.json")), &d); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Type == "query" {
			exprs = append(exprs, v.Definition)
		}
	}
	for _, want := range []string{"datasource", "type"} {
		if !slices.Contains(names, want) {
			t.Errorf("the dashboard has no variable %s", want)
		}
	}
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Error("a panel shows nothing")
		}
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	if len(exprs) < 40 {
		t.Fatalf("only %d expressions could be read", len(exprs))
	}
	return exprs
}

var (
	selector  = regexp.MustCompile(`(streamwright_[a-z0-9_]+)(\{[^}]*\})?`)
	matcher   = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left|group_right)\s*\(([^)]*)\)`)
	variables = regexp.MustCompile(`label_values\((.*), ([a-z_]+)\)`)
	// ofTheScrape are labels that Prometheus adds, or a scrape of all namespaces.
	ofTheScrape = []string{"job", "instance", "namespace"}
)

// find returns what a name stands for: a metric, or a part of a histogram.
func find(all []api.MetricInfo, name string) (labels []string, ok bool) {
	for _, d := range all {
		if d.Name == name && d.Type != "histogram" {
			return d.Labels, true
		}
		if d.Type != "histogram" {
			continue
		}
		switch strings.TrimPrefix(name, d.Name) {
		case "_bucket":
			return append(slices.Clone(d.Labels), "le"), true
		case "_sum", "_count":
			return d.Labels, true
		}
	}
	return nil, false
}

// faults says what an expression names that does not exist.
func faults(all []api.MetricInfo, expr string) (wrong []string) {
	known := slices.Clone(ofTheScrape)
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		labels, ok := find(all, m[1])
		if !ok {
			wrong = append(wrong, m[1])
		}
		known = append(known, labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) && !slices.Contains(ofTheScrape, l[1]) {
				wrong = append(wrong, m[1]+" by "+l[1])
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !slices.Contains(known, l) {
				wrong = append(wrong, "by "+l)
			}
		}
	}
	if m := variables.FindStringSubmatch(expr); m != nil && !slices.Contains(known, m[2]) {
		wrong = append(wrong, "values of "+m[2])
	}
	return wrong
}

func TestDashboardAndAlertsNameWhatExists(t *testing.T) {
	all := api.Catalogue()
	used := map[string]bool{}
	check := func(where, expr string) {
		for _, f := range faults(all, expr) {
			t.Errorf("%s: the engine has no %s: %s", where, f, expr)
		}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			used[m[1]] = true
		}
	}
	for _, a := range alerts(t) {
		check(a.Name, a.Expr)
		if a.Summary == "" || a.Description == "" || !slices.Contains([]string{"critical", "warning", "info"}, a.Severity) {
			t.Errorf("%s lacks a summary, a description or a severity", a.Name)
		}
	}
	for _, e := range dashboard(t) {
		check("dashboard", e)
	}
	if len(used) < 40 {
		t.Errorf("only %d metrics were found in use", len(used))
	}
}

// The check above would find what is wrong.
func TestFaultsAreFound(t *testing.T) {
	all := api.Catalogue()
	for expr, bad := range map[string]bool{
		`sum by (type) (rate(streamwright_run_seconds_bucket{type="a",outcome="x"}[5m]))`: false,
		`sum by (le) (rate(streamwright_run_seconds_bucket[5m]))`:                         false,
		`streamwright_run_seconds > 1`:                                                    true,
		`streamwright_nothing > 1`:                                                        true,
		`streamwright_in_flight{priority="5"}`:                                            true,
		`sum by (priority) (streamwright_in_flight)`:                                      true,
		`streamwright_queued_bucket`:                                                      true,
		`label_values(streamwright_items{job="$job"}, type)`:                              false,
		`label_values(streamwright_items{job="$job"}, code)`:                              true,
	} {
		if got := faults(all, expr); (len(got) > 0) != bad {
			t.Errorf("%s: %v", expr, got)
		}
	}
}

func TestDocsNameWhatExists(t *testing.T) {
	all := api.Catalogue()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range append(files, filepath.Join(root, "README.md")) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range selector.FindAllString(string(data), -1) {
			name := selector.FindStringSubmatch(m)[1]
			_, ok := find(all, name)
			ok = ok || slices.ContainsFunc(all, func(d api.MetricInfo) bool { return d.Name == name })
			ok = ok || name == "streamwright_outbox" // a table
			ok = ok || name == "streamwright_0"      // a Debian package
			if !ok {
				t.Errorf("%s names %s, which does not exist", filepath.Base(f), name)
			}
		}
	}
}

// Each alert's link leads to a page, and a heading in it, that exists.
func TestAlertsLinkToDocs(t *testing.T) {
	const base = "https://github.com/streamwright/streamwright/blob/main/"
	for _, a := range alerts(t) {
		path, ok := strings.CutPrefix(a.Runbook, base)
		page, anchor, _ := strings.Cut(path, "#")
		if !ok {
			t.Errorf("%s links to %s", a.Name, a.Runbook)
			continue
		}
		if text := read(t, page); anchor != "" && !slices.Contains(anchors(text), anchor) {
			t.Errorf("%s links to %s, but %s has no such heading", a.Name, anchor, page)
		}
	}
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(page string) (list []string) {
	drop := regexp.MustCompile(`[^a-z0-9_ -]`)
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			list = append(list, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-"))
		}
	}
	return list
}
