package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/api"
)

// The tables of docs/reference/METRICS.md are those of the code and of alerts.yml;
// UPDATE_DOCS=1 go test ./internal/deploy writes them.
func TestMetricsDoc(t *testing.T) {
	path := filepath.Join(root, "docs", "reference", "METRICS.md")
	page := read(t, "docs", "reference", "METRICS.md")
	want := between(t, page, "metrics", metricsTable())
	want = between(t, want, "alerts", alertsTable(t))
	if page == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatal("docs/reference/METRICS.md is out of date: run UPDATE_DOCS=1 go test ./internal/deploy")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// between puts text between a page's marks.
func between(t *testing.T, page, mark, text string) string {
	t.Helper()
	begin, end := "<!-- "+mark+" -->\n", "<!-- end of "+mark+" -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("docs/reference/METRICS.md has lost its marks for %s", mark)
	}
	return before + begin + text + end + after
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | kind | labels | what it says |\n|---|---|---|---|\n")
	for _, d := range api.Catalogue() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(d.Labels, ", "), strings.ReplaceAll(d.Help, "|", "\\|"))
	}
	return b.String()
}

func alertsTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| alert | severity | after | what it says | what to do |\n|---|---|---|---|---|\n")
	text := strings.NewReplacer("|", "\\|", "{{ $value | humanizePercentage }}", "…", "{{ $value | humanizeDuration }}", "…", "{{ $value | humanize }}", "…", "{{ $value }}", "…",
		"{{ $labels.type }}", "T", "{{ $labels.priority }}", "P", "{{ $labels.instance }}", "I", "{{ $labels.code }}", "C")
	for _, a := range alerts(t) {
		_, link, _ := strings.Cut(a.Runbook, "/docs/")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s [More](../%s) |\n", a.Name, a.Severity, orAtOnce(a.For), text.Replace(a.Summary), text.Replace(a.Description), link)
	}
	return b.String()
}

func orAtOnce(s string) string {
	if s == "" {
		return "at once"
	}
	return s
}
