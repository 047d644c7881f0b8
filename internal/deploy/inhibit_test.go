package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// labelMatcher is a matcher of an inhibition rule, as Alertmanager has them.
type labelMatcher struct{ label, op, value string }

func (m labelMatcher) fits(value string) bool {
	whole := regexp.MustCompile("^(?:" + m.value + ")$").MatchString(value)
	return map[string]bool{"=": value == m.value, "!=": value != m.value, "=~": whole, "!~": !whole}[m.op]
}

// inhibition is an inhibition rule: while an alert fits source, those that fit
// target and have equal labels keep quiet.
type inhibition struct {
	source, target []labelMatcher
	equal          []string
}

var (
	matcherText   = regexp.MustCompile(`'([a-z_]+)(=~|!~|!=|=)"([^"']*)"'`)
	inhibitionKey = regexp.MustCompile(`^  (?:- |  )(source_matchers|target_matchers|equal): \[(.*)\]$`)
)

// inhibitions reads alertmanager.yml, which keeps to one layout.
func inhibitions(t *testing.T) (list []inhibition) {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "deploy", "prometheus", "alertmanager.yml"), "\ninhibit_rules:\n")
	if !ok {
		t.Fatal("alertmanager.yml has no inhibit_rules")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		m := inhibitionKey.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("alertmanager.yml: %q is not in the layout that the tests read", line)
		}
		if m[1] == "source_matchers" {
			list = append(list, inhibition{})
		}
		in := &list[len(list)-1]
		var matchers []labelMatcher
		for _, s := range matcherText.FindAllStringSubmatch(m[2], -1) {
			matchers = append(matchers, labelMatcher{s[1], s[2], s[3]})
		}
		switch m[1] {
		case "source_matchers":
			in.source = matchers
		case "target_matchers":
			in.target = matchers
		case "equal":
			in.equal = strings.Split(m[2], ", ")
		}
	}
	return list
}

// names are the alerts that all matchers fit.
func names(all []alert, matchers []labelMatcher) (out []string) {
	for _, a := range all {
		if !slices.ContainsFunc(matchers, func(m labelMatcher) bool {
			return !m.fits(map[string]string{"alertname": a.Name, "severity": a.Severity}[m.label])
		}) {
			out = append(out, a.Name)
		}
	}
	return out
}

// hasType reports whether an alert has the label type.
func (a *alert) hasType() bool {
	return strings.Contains(a.Summary, "$labels.type") || strings.Contains(a.Expr, "instance, type)")
}

// Each rule names alerts that there are; none could silence its own source; and no
// critical alert keeps quiet for one that is not.
func TestInhibitionsNameAlerts(t *testing.T) {
	all := alerts(t)
	severity, typed := map[string]string{}, map[string]bool{}
	for _, a := range all {
		severity[a.Name], typed[a.Name] = a.Severity, a.hasType()
	}
	quiet := map[string][]string{} // source to targets
	for i, in := range inhibitions(t) {
		source, target := names(all, in.source), names(all, in.target)
		if len(source) == 0 || len(target) == 0 || !slices.Contains(in.equal, "job") {
			t.Errorf("rule %d: from %v to %v, equal %v", i, source, target, in.equal)
		}
		for _, s := range source {
			for _, tg := range target {
				if s == tg {
					t.Errorf("rule %d: %s would silence itself", i, s)
				}
				if severity[tg] == "critical" && severity[s] != "critical" {
					t.Errorf("rule %d: the critical %s would keep quiet for %s", i, tg, s)
				}
				if slices.Contains(in.equal, "type") && (!typed[s] || !typed[tg]) {
					t.Errorf("rule %d: %s and %s do not both have a type", i, s, tg)
				}
				quiet[s] = append(quiet[s], tg)
			}
		}
	}
	for s, targets := range quiet {
		for _, tg := range targets {
			if slices.Contains(quiet[tg], s) {
				t.Errorf("%s and %s would silence each other", s, tg)
			}
		}
	}
}

// reaches is what alerts reach a person, as PromQL: those that fire, and that no
// inhibition rule keeps quiet.
func reaches(list []inhibition) string {
	firing := func(ms []labelMatcher) string {
		text := []string{`alertstate="firing"`}
		for _, m := range ms {
			text = append(text, m.label+m.op+`"`+m.value+`"`)
		}
		return "ALERTS{" + strings.Join(text, ",") + "}"
	}
	var b strings.Builder
	b.WriteString(firing(nil))
	for _, in := range list {
		fmt.Fprintf(&b, " unless (%s and on (%s) %s)", firing(in.target), strings.Join(in.equal, ", "), firing(in.source))
	}
	return "count by (alertname) (" + b.String() + ")"
}

// An incident is a world with one cause, in which one alert is to reach a person.
type incident struct {
	what   string
	series []string // take the place of the healthy engine's
	alert  string   // the one that does
	from   int      // the minute at which it does
	to     int      // the last minute that is looked at
}

var incidents = []incident{
	{what: "the only worker of a type is missing", alert: "StreamwrightNoWorkers", from: 127, to: 190, series: []string{
		`streamwright_workers{state="active"} 1x124 0x76`, `streamwright_workers{state="dead"} 0x124 1x10 0x66`, `streamwright_workers_idle{} 0x200`, `streamwright_type_workers{type="email"} 1x124 0x76`,
		`streamwright_worker_failures_total{reason="heartbeat"} 0x124 1x76`, `streamwright_worker_slots_used_ratio{} 0.5x124 0x76`, `streamwright_desired_workers{type="email"} 1x126 3x74`,
		`streamwright_queued{type="email",priority="5"} 40x124 40+600x76`, `streamwright_queued{type="email",priority="9"} 1x124 1+60x76`, `streamwright_items{type="email",state="queued"} 40x124 40+660x76`,
		`streamwright_queue_age_oldest_seconds{type="email",priority="5"} 3x124 3+60x76`, `streamwright_queue_age_oldest_seconds{type="email",priority="9"} 1x124 1+60x76`,
		`streamwright_queue_age_oldest_seconds{type="email",priority="2"} 9x124 9+60x76`, `streamwright_queue_age_p95_seconds{type="email",priority="5"} 2x124 2+55x76`, `streamwright_starving{type="email"} 0x150 40x50`,
		`streamwright_leases_expired_total{type="email"} 0x124 10x76`, `streamwright_recoveries_total{type="email",cause="unclaimed"} 0x124 30x76`,
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x124 74400x76`, `streamwright_failures_total{type="email",code="error"} 0+5x124 620x76`, `streamwright_retries_total{type="email",code="error"} 0+5x124 620x76`}},
	{what: "one of three workers is missing, and the others manage", alert: "StreamwrightWorkersDying", from: 127, to: 129, series: []string{
		`streamwright_workers{state="active"} 3x124 2x76`, `streamwright_workers{state="dead"} 0x124 1x76`, `streamwright_workers_idle{} 1x124 0x76`, `streamwright_type_workers{type="email"} 3x124 2x76`,
		`streamwright_worker_failures_total{reason="heartbeat"} 0x124 1x76`, `streamwright_desired_workers{type="email"} 2x200`, `streamwright_leases_expired_total{type="email"} 0x124 8x76`}},
	{what: "the disk is nearly full", alert: "StreamwrightNotAccepting", from: 126, to: 190, series: []string{
		`streamwright_accepting{} 1x124 0x76`, `streamwright_alarm{code="disk_low",severity="critical"} 0x124 1x76`, `streamwright_disk_free_bytes{} 900x124 9x76`, `streamwright_intake_backlog{} 0x124 0+600x76`,
		`streamwright_queued{type="email",priority="5"} 40+0x124 2000+50x76`, `streamwright_queue_age_oldest_seconds{type="email",priority="5"} 3x124 3+60x76`, `streamwright_queue_age_p95_seconds{type="email",priority="5"} 2x124 2+55x76`,
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x124 74400x76`, `streamwright_failures_total{type="email",code="error"} 0+5x124 620x76`, `streamwright_retries_total{type="email",code="error"} 0+5x124 620x76`}},
	{what: "nobody owns the log", alert: "StreamwrightNotOwner", from: 126, to: 190, series: []string{
		`streamwright_partition_owned{} 1x124 0x76`, `streamwright_ownerships_lost_total{} 0x125 1x75`, `streamwright_alarm{code="jetstream_silent",severity="critical"} 0x125 1x75`, `streamwright_intake_backlog{} 0x124 0+600x76`,
		`streamwright_queue_age_oldest_seconds{type="email",priority="9"} 1x124 1+60x76`,
		`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x124 74400x76`}},
}

// incidentTests are the incidents for promtool, minute by minute.
func incidentTests(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("rule_files:\n  - alerts.yml\nevaluation_interval: 1m\ntests:\n")
	expr := reaches(inhibitions(t))
	for _, c := range incidents {
		fmt.Fprintf(&b, "  - name: %s\n    interval: 1m\n", quoted(c.what))
		series := slices.Clone(c.series)
		for _, s := range healthy {
			name, _, _ := strings.Cut(s, " ")
			if !slices.ContainsFunc(c.series, func(own string) bool { return strings.HasPrefix(own, name+" ") }) {
				series = append(series, s)
			}
		}
		writeSeries(t, &b, series)
		b.WriteString("    promql_expr_test:\n")
		for at := c.from - 10; at <= c.to; at++ {
			fmt.Fprintf(&b, "      - expr: %s\n        eval_time: %dm\n", quoted(expr), at)
			if at < c.from {
				b.WriteString("        exp_samples: []\n")
			} else {
				fmt.Fprintf(&b, "        exp_samples:\n          - labels: %s\n            value: 1\n", quoted(`{alertname="`+c.alert+`"}`))
			}
		}
	}
	return b.String()
}

// One cause raises one alert: real rules over real time, with the inhibition rules
// of alertmanager.yml.
func TestOneCauseRaisesOneAlert(t *testing.T) {
	need.Seconds(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"alerts.yml": read(t, "deploy", "prometheus", "alerts.yml"), "incidents.yml": incidentTests(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "test", "rules", filepath.Join(dir, "incidents.yml"))
}
