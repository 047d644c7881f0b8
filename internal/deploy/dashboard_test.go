package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Options                  struct{ YAxis struct{ Unit string } }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

type variable struct {
	Name, Type, AllValue string
	Multi, IncludeAll    bool
}

// board is the dashboard as Grafana reads it.
func board(t *testing.T) (panels []panel, variables []variable) {
	t.Helper()
	var d struct {
		Panels     []panel
		Templating struct{ List []variable }
	}
	if err := json.Unmarshal([]byte(read(t, "deploy", "grafana", "streamwright.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels, d.Templating.List
}

// The panels lie beside each other on the grid's 24 columns, and each says what it
// shows, in which unit, and which line is which.
func TestDashboardLayout(t *testing.T) {
	panels, _ := board(t)
	taken, ids := map[[2]int]string{}, map[int]string{}
	for _, p := range panels {
		if other := ids[p.ID]; other != "" || p.ID == 0 {
			t.Errorf("%s has the id %d, as %q has", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.X < 0 || g.Y < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s lies beside the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, is := taken[[2]int{x, y}]; is {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" && p.Options.YAxis.Unit == "" {
			t.Errorf("%q lacks a title, a description or a unit", p.Title)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" {
				t.Errorf("%s has the query %q twice", p.Title, q.RefID)
			}
			refs[q.RefID] = true
			if q.LegendFormat == "" && (p.Type != "stat" || len(p.Targets) > 1) {
				t.Errorf("%s does not say what %s is", p.Title, q.Expr)
			}
		}
	}
}

// Each query is of the chosen job and engines, and takes a variable that may have
// several values as the pattern that Grafana makes of them, or of All.
func TestDashboardVariables(t *testing.T) {
	panels, variables := board(t)
	for _, v := range variables {
		if v.Multi && (!v.IncludeAll || v.AllValue != ".*") {
			t.Errorf("the variable %s has no All that takes all", v.Name)
		}
	}
	for _, p := range panels {
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `job="$job"`) || !strings.Contains(q.Expr, `instance=~"$instance"`) {
				t.Errorf("%s is not of the chosen engines: %s", p.Title, q.Expr)
			}
			for _, v := range variables {
				if uses, patterns := strings.Count(q.Expr, "$"+v.Name), strings.Count(q.Expr, `=~"$`+v.Name+`"`); v.Multi && uses != patterns {
					t.Errorf("%s compares with several values of %s: %s", p.Title, v.Name, q.Expr)
				}
			}
		}
	}
}

// What every node knows of the work is shown once: the nodes' figures are not added up. Counts of
// each node's own work are.
func TestDashboardCountsWorkOnce(t *testing.T) {
	each := []string{
		"streamwright_requests_total", "streamwright_events_appended_total", "streamwright_append_seconds_bucket",
		"streamwright_append_events_sum", "streamwright_append_events_count", "streamwright_ownerships_lost_total", "streamwright_fences_total",
		"streamwright_worker_failures_total",
	}
	once := regexp.MustCompile(`(^|[(/+] ?)max (by \([^)]*\) )?\($`)
	panels, _ := board(t)
	seen := 0
	for _, p := range panels {
		for _, q := range p.Targets {
			for _, at := range selector.FindAllStringSubmatchIndex(q.Expr, -1) {
				before := q.Expr[:at[2]]
				for _, f := range []string{"rate(", "increase("} {
					before = strings.TrimSuffix(before, f)
				}
				metric := q.Expr[at[2]:at[3]]
				if !strings.Contains(q.Expr, "sum(") && !strings.Contains(q.Expr, "sum by") {
					continue
				}
				seen++
				if once.MatchString(before) == slices.Contains(each, metric) {
					t.Errorf("%s: is %s each node's own? %s", p.Title, metric, q.Expr)
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d metrics are added up", seen)
	}
}

// quietPanels are the queries, by panel and letter, that such an engine as the
// tests' rightly has no data for.
var quietPanels = map[string]string{
	"Circuits B":        "no type's circuit is open",
	"Recoveries A":      "nothing had to be repaired",
	"Retries by code A": "what failed may not be retried",
}

// answers asks each panel's questions of a Prometheus that has scraped an engine
// which has done all kinds of things: each has data, with All and with types chosen.
func (s *server) answers(t *testing.T, instance string) {
	t.Helper()
	panels, _ := board(t)
	ctx := testContext(t)
	for choice, fill := range map[string]*strings.Replacer{
		"all":    strings.NewReplacer("$__rate_interval", "5m", "$job", "streamwright", "$instance", ".*", "$type", ".*"),
		"chosen": strings.NewReplacer("$__rate_interval", "5m", "$job", "streamwright", "$instance", instance, "$type", "(email|report)"),
	} {
		var empty map[string]string
		last := func() string { return fmt.Sprintf("%s: an answer to %v", choice, slices.Sorted(maps.Values(empty))) }
		for {
			empty = map[string]string{}
			for _, p := range panels {
				for _, q := range p.Targets {
					name := p.Title + " " + q.RefID
					if n := s.samples(t, fill.Replace(q.Expr)); n == 0 && quietPanels[name] == "" {
						empty[name] = name + ": " + q.Expr
					} else if n > 0 && quietPanels[name] != "" {
						t.Fatalf("%s has data: it is no quiet panel", name)
					}
				}
			}
			if len(empty) == 0 {
				break
			}
			sleep(ctx, t, last())
		}
	}
}

// samples is how many series the answer to a query has.
func (s *server) samples(t *testing.T, expr string) int {
	t.Helper()
	body, err := tryGet(testContext(t), s.url+"/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var reply struct{ Data vector }
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		t.Fatal(err)
	}
	return len(reply.Data.Result)
}
