package embedded

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// exposed reads a page of metrics as Prometheus does: a family that comes twice, or a sample
// that does, is an error.
func exposed(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("%v in\n%s", err, page)
	}
	for name := range families {
		if n := strings.Count(page, "# TYPE "+name+" "); n != 1 {
			t.Errorf("%s has its type %d times", name, n)
		}
	}
	return families
}

// in returns the values of a family by its namespace: of the samples with no label but that,
// and those that are given as NAME=VALUE. Without a label namespace that is "".
func in(f *dto.MetricFamily, labels ...string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range f.GetMetric() {
		ns, others := "", []string(nil)
		for _, l := range m.Label {
			if l.GetName() == "namespace" {
				ns = l.GetValue()
			} else {
				others = append(others, l.GetName()+"="+l.GetValue())
			}
		}
		if slices.Equal(others, labels) {
			values[ns] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

// One scrape has the series of all namespaces, each with its label; the plain one has those of
// default, without.
func TestScrapeOfAllNamespaces(t *testing.T) {
	need.NoReload(t)
	dir := t.TempDir()
	e := mustStart(t, Options{Dir: dir, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	url := "http://" + e.HTTP() + "/metrics"
	c := mustClient(t, e)
	ctx := testContext(t)
	addNamespaces(t, e, "beta", "acme")
	for _, ns := range []string{"beta", "acme"} {
		if _, err := inNamespace(t, e, ns).Submit(ctx, streamwright.Item{Type: "email"}); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, e, wire.Submit{Type: "email"})
	_, plain := fetch(t, url)
	for name, f := range exposed(t, plain) {
		for _, m := range f.Metric {
			if slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "namespace" }) {
				t.Errorf("%s has a namespace without being asked for it", name)
			}
		}
	}
	need.Eventually(t, "all that is queued is shown", func() bool {
		_, page := fetch(t, url+"?namespaces=all")
		got := in(exposed(t, page)["streamwright_items"], "state=queued", "type=email")
		return got["default"] == 1 && got["acme"] == 1 && got["beta"] == 1 && len(got) == 3
	})
	_, page := fetch(t, url+"?namespaces=all")
	all := exposed(t, page)
	for name := range exposed(t, plain) {
		if all[name] == nil {
			t.Errorf("a scrape of all lacks %s", name)
		}
	}
	for name, f := range all {
		labelled := strings.HasPrefix(name, "streamwright_") && name != "streamwright_namespaces_left_out"
		for _, m := range f.Metric {
			if slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "namespace" }) != labelled {
				t.Errorf("%s: %v", name, m.Label)
			}
		}
	}
	if got := in(all["streamwright_namespace_running"]); len(got) != 3 || got["default"] != 1 || got["acme"] != 1 || got["beta"] != 1 {
		t.Errorf("running are %v", got)
	}
	if got := in(all["streamwright_namespaces_left_out"]); len(got) != 1 || got[""] != 0 {
		t.Errorf("left out are %v", got)
	}
	if got := in(all["process_open_fds"]); len(got) > 1 {
		t.Errorf("the process is there %d times", len(got))
	}
	// What one sees is its own alone.
	_, own := fetch(t, "http://"+e.HTTP()+"/ns/acme/metrics")
	if got := in(exposed(t, own)["streamwright_items"], "state=queued", "type=email"); len(got) != 1 || got[""] != 1 {
		t.Errorf("acme has %v", got)
	}
	for path, want := range map[string]int{"/metrics?namespaces=acme": 400, "/metrics?namespace=all": 400, "/metrics?namespaces=all&namespaces=all": 400, "/ns/acme/metrics?namespaces=all": 400} {
		if code, body := fetch(t, "http://"+e.HTTP()+path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// One that can't start is seen not to run.
	broken := filepath.Join(dir, namespaceFolder, "gamma")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, restoreFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Namespaces().Set(ctx, "gamma", streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "gamma is seen not to run", func() bool {
		_, page := fetch(t, url+"?namespaces=all")
		got, is := in(exposed(t, page)["streamwright_namespace_running"])["gamma"]
		return is && got == 0
	})
}

// To scrape all namespaces takes the role in all of them.
func TestWhoMayScrapeAllNamespaces(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	of := func(who string) string { return who + "-0123456789abcdefghij" }
	text := ""
	for who, roles := range map[string]string{"one": "read", "two": "read,acme/read", "every": "*/read", "ops": "*/operate"} {
		text += fmt.Sprintf("%s %s %s\n", who, of(who), roles)
	}
	if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Memory: true, HTTP: "127.0.0.1:0"}
	o.Config.HTTP.TokensFile = tokens
	e := mustStart(t, o)
	for who, want := range map[string]int{"one": 403, "two": 403, "every": 200, "ops": 403, "nobody": 401} {
		code, p := ask(t, http.DefaultClient, http.MethodGet, "http://"+e.HTTP()+"/metrics?namespaces=all", of(who))
		if code != want || who == "two" && !strings.Contains(p.Detail, "*/read") {
			t.Errorf("%s: %d %+v", who, code, p)
		}
	}
	for who, want := range map[string]int{"one": 200, "two": 200, "every": 200, "ops": 403} {
		if code, p := ask(t, http.DefaultClient, http.MethodGet, "http://"+e.HTTP()+"/metrics", of(who)); code != want {
			t.Errorf("%s: %d %+v", who, code, p)
		}
	}
}
