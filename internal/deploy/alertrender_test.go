package deploy

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy is an engine with some work, in which nothing is wrong: no alert fires
// in it. It has every metric that an alert names.
var healthy = []string{
	`up{} 1x200`, `streamwright_partition_owned{} 1x200`, `streamwright_accepting{} 1x200`, `streamwright_clock_implausible{} 0x200`, `streamwright_alarm{code="queue_limit",severity="critical"} 0x200`, `streamwright_paused{type="email"} 0x200`, `streamwright_ownerships_lost_total{} 0x200`, `streamwright_log_foreign_messages_total{} 0x200`, `streamwright_takeovers_total{} 1x200`, `streamwright_node_cut_off{} 0x200`, `streamwright_nodes_settings_differ{} 0x200`, `streamwright_replicas_damaged{stream="WORK_EVENTS_0"} 0x200`,
	`streamwright_projection_lag_events{} 0 40 3 0 90x190`, `streamwright_projection_lag_seconds{} 0x200`, `streamwright_intake_backlog{} 0 30 2 0x190`,
	`streamwright_storage_used_bytes{} 30+0.1x200`, `streamwright_storage_max_bytes{} 100x200`,
	`streamwright_disk_free_bytes{} 900-0.1x200`, `streamwright_disk_min_free_bytes{} 10x200`,
	`streamwright_queued{type="email",priority="5"} 40 10 70 20 30x190`, `streamwright_queued{type="email",priority="9"} 1x200`, `streamwright_scheduled{type="email"} 10x200`,
	`streamwright_items{type="email",state="queued"} 40x200`, `streamwright_items{type="email",state="waiting"} 5x200`, `streamwright_max_queued{type="email"} 1000x200`,
	`streamwright_queue_age_oldest_seconds{type="email",priority="5"} 3x200`, `streamwright_queue_age_oldest_seconds{type="email",priority="2"} 9x200`,
	`streamwright_queue_age_oldest_seconds{type="email",priority="9"} 1x200`, `streamwright_queue_age_p95_seconds{type="email",priority="5"} 2x200`, `streamwright_starving{type="email"} 0x200`,
	`streamwright_transitions_total{type="email",from="running",to="completed"} 0+600x200`, `streamwright_failures_total{type="email",code="error"} 0+5x200`,
	`streamwright_retries_total{type="email",code="error"} 0+5x200`, `streamwright_dead_total{type="email",reason="exhausted"} 0x60 1x140`,
	`streamwright_rejections_total{code="duplicate"} 0+3x200`, `streamwright_rejections_total{code="bad_params"} 0x200`, `streamwright_causes_noted_total{why="new"} 0x200`,
	`streamwright_dead_replayable{type="email"} 3x200`, `streamwright_leases_expired_total{type="email"} 0x200`, `streamwright_recoveries_total{type="email",cause="not_started"} 0x200`,
	`streamwright_worker_failures_total{reason="heartbeat"} 0x200`, `streamwright_worker_failures_total{reason="probe"} 0x50 1x150`,
	`streamwright_awaiting_signal_oldest_seconds{type="order",signal="paid"} 3600x200`,
	`streamwright_workers{state="active"} 10x200`, `streamwright_workers{state="unhealthy"} 0x200`, `streamwright_workers{state="dead"} 1x200`, `streamwright_workers_idle{} 4x200`,
	`streamwright_worker_slots_used_ratio{} 0.5x200`, `streamwright_worker_circuits{state="open"} 0x200`, `streamwright_circuit{type="email",state="open"} 0x200`,
	`streamwright_type_workers{type="email"} 10x200`, `streamwright_desired_workers{type="email"} 6x200`,
}

const alertTestsHead = `# Unit tests of the alerts: promtool test rules deploy/prometheus/alerts_test.yml
#
# Written by UPDATE_DOCS=1 go test ./internal/deploy, from the cases that are
# there: for each alert, series in which it fires when its time is over and not a
# minute before, with the text that reaches a person; series near to those in which
# it doesn't; and an engine in which nothing is wrong.
rule_files:
  - alerts.yml
evaluation_interval: 1m
tests:
`

// sampleSeries is a series of a case, for promtool: `up{a="b"} 1x5` as a series
// with job and instance.
var sampleSeries = regexp.MustCompile(`^([a-z0-9_]+)\{(.*)\} (\S.*)$`)

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func writeSeries(t *testing.T, b *strings.Builder, series []string) {
	t.Helper()
	b.WriteString("    input_series:\n")
	for _, s := range series {
		m := sampleSeries.FindStringSubmatch(s)
		if m == nil {
			t.Fatalf("%s is no series", s)
		}
		labels := `job="streamwright"`
		if !strings.Contains(m[2], "instance=") {
			labels += `, instance="e:8484"`
		}
		if m[2] != "" {
			labels += ", " + strings.ReplaceAll(m[2], ",", ", ")
		}
		fmt.Fprintf(b, "      - series: %s\n        values: %s\n", quoted(m[1]+"{"+labels+"}"), quoted(m[3]))
	}
}

// writeQuiet writes that an alert (all: empty) has not fired until a minute.
func writeQuiet(b *strings.Builder, alert string, until int) {
	b.WriteString("    promql_expr_test:\n")
	name := ""
	if alert != "" {
		name = fmt.Sprintf(`alertname="%s", `, alert)
	}
	fmt.Fprintf(b, "      - expr: %s\n        eval_time: %dm\n        exp_samples: []\n", quoted(fmt.Sprintf(`count_over_time(ALERTS{%salertstate="firing"}[%dm])`, name, until+1)), until)
}

// writeFires writes that an alert fires at a minute, and as what.
func writeFires(b *strings.Builder, a *alert, c *alertCase, at int) {
	fmt.Fprintf(b, "    alert_rule_test:\n      - eval_time: %dm\n        alertname: %s\n        exp_alerts:\n          - exp_labels:\n", at, a.Name)
	fmt.Fprintf(b, "              severity: %s\n              job: streamwright\n", a.Severity)
	if !strings.Contains(a.Expr, " by (job) (") && !strings.Contains(a.Expr, " by (job, namespace) (") {
		b.WriteString("              instance: e:8484\n")
	}
	description := a.Description
	for label := range strings.SplitSeq(c.labels, ",") {
		if key, value, ok := strings.Cut(label, "="); ok {
			fmt.Fprintf(b, "              %s: %s\n", key, value)
			description = strings.ReplaceAll(description, "{{ $labels."+key+" }}", strings.Trim(value, `"`))
		}
	}
	fmt.Fprintf(b, "            exp_annotations:\n              summary: %s\n              description: %s\n              runbook_url: %s\n", quoted(c.summary), quoted(description), a.Runbook)
}

// after is an alert's `for` in minutes.
func (a *alert) after(t *testing.T) int {
	t.Helper()
	if a.For == "" {
		return 0
	}
	d, err := time.ParseDuration(a.For)
	if err != nil || d%time.Minute != 0 {
		t.Fatalf("%s is for %s: the tests take whole minutes", a.Name, a.For)
	}
	return int(d / time.Minute)
}

// alertTests is what alerts_test.yml is to be.
func alertTests(t *testing.T) string {
	t.Helper()
	byName := map[string]*alert{}
	for _, a := range alerts(t) {
		byName[a.Name] = &a
	}
	var b strings.Builder
	b.WriteString(alertTestsHead)
	fmt.Fprintf(&b, "  - name: %s\n    interval: 1m\n", quoted("all is well"))
	writeSeries(t, &b, healthy)
	writeQuiet(&b, "", 150)
	for _, c := range slices.Concat(criticalCases, otherCases) {
		a := byName[c.alert]
		if a == nil {
			t.Fatalf("there is no alert %s", c.alert)
		}
		fmt.Fprintf(&b, "  - name: %s\n    interval: 1m\n", quoted(c.alert+": "+c.what))
		writeSeries(t, &b, c.series)
		if c.from == never {
			writeQuiet(&b, a.Name, cmp.Or(c.until, caseEnds))
			continue
		}
		fires := c.from + a.after(t)
		writeQuiet(&b, a.Name, fires-1)
		writeFires(&b, a, &c, fires)
	}
	return b.String()
}

// The tests of the alerts are those of the cases; UPDATE_DOCS=1 writes them.
func TestAlertTestsAreWritten(t *testing.T) {
	want := alertTests(t)
	path := filepath.Join(root, "deploy", "prometheus", "alerts_test.yml")
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, "deploy", "prometheus", "alerts_test.yml") != want {
		t.Fatal("deploy/prometheus/alerts_test.yml is out of date: run UPDATE_DOCS=1 go test ./internal/deploy")
	}
}

// Each alert has a case in which it fires and one in which it doesn't, and a
// healthy engine has every metric that is asked of.
func TestEveryAlertIsTested(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(criticalCases, otherCases) {
		fires[c.alert] = fires[c.alert] || c.from != never
		quiet[c.alert] = quiet[c.alert] || c.from == never
	}
	have := strings.Join(healthy, "\n")
	for _, a := range alerts(t) {
		if !fires[a.Name] || !quiet[a.Name] {
			t.Errorf("%s: is it seen to fire: %v; is it seen to be quiet: %v", a.Name, fires[a.Name], quiet[a.Name])
		}
		for _, m := range selector.FindAllStringSubmatch(a.Expr, -1) {
			if !strings.Contains(have, m[1]+"{") {
				t.Errorf("%s asks for %s, which the healthy engine of the tests has not", a.Name, m[1])
			}
		}
		for _, used := range templateLabel.FindAllStringSubmatch(a.Summary+a.Description, -1) {
			if !strings.Contains(a.Expr, used[1]) && !slices.Contains(ofTheScrape, used[1]) && !strings.HasPrefix(a.Expr, "streamwright_") {
				t.Errorf("%s tells of the label %s, which its expression has not", a.Name, used[1])
			}
		}
	}
}

var templateLabel = regexp.MustCompile(`\$labels\.([a-z_]+)`)
