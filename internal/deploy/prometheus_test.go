package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

const patience = 5 * time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), need.Program(t, "promtool"), args...)
	cmd.Dir = filepath.Join(root, "deploy", "prometheus")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestRulesAndConfigAreGood(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")
	promtool(t, "check", "config", "prometheus.yml")
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	need.Seconds(t)
	promtool(t, "test", "rules", "alerts_test.yml")
}

// The engine's own exposition is as Prometheus would have it.
func TestExpositionIsWellFormed(t *testing.T) {
	wellFormed(t, get(t, "http://"+running(t).HTTP()+"/metrics"))
}

// So is that of all namespaces.
func TestExpositionOfAllNamespacesIsWellFormed(t *testing.T) {
	need.NoReload(t)
	e := running(t)
	c, err := e.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Namespaces().Set(testContext(t), "acme", streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
	page := ""
	need.Eventually(t, "acme is shown", func() bool {
		page = get(t, "http://"+e.HTTP()+"/metrics?namespaces=all")
		return strings.Contains(page, `streamwright_namespace_running{namespace="acme"} 1`)
	})
	wellFormed(t, page)
}

// wellFormed has promtool read a page of metrics.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	cmd := exec.CommandContext(testContext(t), need.Program(t, "promtool"), "check", "metrics")
	cmd.Stdin = strings.NewReader(page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// running is an engine in which items have completed, failed, died, wait, and
// were rejected.
func running(t *testing.T) *embedded.Engine {
	t.Helper()
	ctx := testContext(t)
	e, err := embedded.Start(ctx, embedded.Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Durability: "interval"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	w, err := workers.New(nc, workers.Config{ID: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(_ context.Context, it *workers.RawItem) (any, error) {
		if bytes.Contains(it.Raw, []byte("bad")) {
			return nil, workers.WithCode(errors.New("no such address"), events.FailInvalidInput)
		}
		return nil, nil
	})
	workers.HandleRaw(w, "order", func(context.Context, *workers.RawItem) (any, error) { return nil, workers.Wait("paid").For(time.Hour) })
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for i := range 5 {
		params := `{"to":"good"}`
		if i == 4 {
			params = `{"to":"bad"}`
		}
		got, err := c.Submit(ctx, streamwright.Item{Type: "email", Params: json.RawMessage(params)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(ctx, got.ID); err != nil {
			t.Fatal(err)
		}
	}
	waits, err := c.Submit(ctx, streamwright.Item{Type: "order"})
	if err != nil {
		t.Fatal(err)
	}
	for ; ; sleep(ctx, t, "the wait") {
		if it, err := c.Get(ctx, waits.ID); err != nil {
			t.Fatal(err)
		} else if it.WaitsFor != nil {
			break
		}
	}
	for range 3 {
		if _, err := c.Submit(ctx, streamwright.Item{Type: "report"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Publish("work.submit.email", []byte("no JSON")); err != nil {
		t.Fatal(err)
	}
	for ; ; sleep(ctx, t, "the rejection") {
		if stats, err := c.Engine().Stats(ctx); err != nil {
			t.Fatal(err)
		} else if stats.Rejected == 1 {
			return e
		}
	}
}

// sleep waits between two questions to another process; what names what for.
func sleep(ctx context.Context, t *testing.T, what string) {
	t.Helper()
	select {
	case <-ctx.Done():
		t.Fatalf("%s never came", what)
	case <-time.After(50 * time.Millisecond):
	}
}

func get(t *testing.T, u string) string {
	t.Helper()
	body, err := tryGet(testContext(t), u)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func tryGet(ctx context.Context, u string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", u, resp.Status, body)
	}
	return string(body), err
}

var (
	typeLine = regexp.MustCompile(`(?m)^# TYPE (streamwright_\S+) (\S+)$`)
	sample   = regexp.MustCompile(`(?m)^(streamwright_[a-z0-9_]+)(?:\{([^}]*)\})? (\S+)$`)
	label    = regexp.MustCompile(`([a-z_]+)="`)
)

// What a running engine exports is what the catalogue says, and nothing of it is
// missing but what such an engine can't have.
func TestCatalogueIsWhatIsExported(t *testing.T) {
	page := get(t, "http://"+running(t).HTTP()+"/metrics")
	all := api.Catalogue()
	kinds := map[string]string{}
	for _, d := range all {
		kinds[d.Name] = d.Type
	}
	seen := map[string]bool{}
	for _, m := range typeLine.FindAllStringSubmatch(page, -1) {
		if seen[m[1]] = true; kinds[m[1]] != m[2] {
			t.Errorf("%s is exported as %s; the catalogue has it as %q", m[1], m[2], kinds[m[1]])
		}
	}
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		labels, ok := find(all, m[1])
		var got []string
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			got = append(got, l[1])
		}
		if !ok || len(got) != len(labels) {
			t.Errorf("%s has the labels %v; the catalogue says %v", m[1], got, labels)
		}
	}
	// These need a limit, a quota, a circuit, a repair, traces, several servers, a read of the replicas, or a new cause seen grow.
	absent := map[string]bool{"streamwright_max_queued": true, "streamwright_circuit": true, "streamwright_recoveries_total": true, "streamwright_leases_expired_total": true,
		"streamwright_retries_total": true, "streamwright_storage_max_bytes": true, "streamwright_trace_spans_total": true, "streamwright_quota_refusals_total": true,
		"streamwright_namespace_running": true, "streamwright_namespaces_left_out": true, // of a scrape of all namespaces
		"streamwright_replicas_damaged": true, "streamwright_replicas_read_seconds": true, "streamwright_stream_replicas_behind": true, "streamwright_stream_spare_servers": true}
	for _, d := range all {
		if !seen[d.Name] && !absent[d.Name] {
			t.Errorf("%s has no sample in an engine that has done all kinds of things", d.Name)
		}
	}
}

// server is a Prometheus server of our own.
type server struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, target string) *server {
	t.Helper()
	dir := t.TempDir()
	rules := filepath.Join(dir, "alerts.yml")
	if err := os.WriteFile(rules, []byte(read(t, "deploy", "prometheus", "alerts.yml")), 0o600); err != nil {
		t.Fatal(err)
	}
	// The example as it is, but for the address and the pace.
	config := read(t, "deploy", "prometheus", "prometheus.yml")
	config = strings.Replace(config, "127.0.0.1:8484", target, 1)
	config = strings.ReplaceAll(config, "15s", "1s")
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := need.Address(t).String()
	var log bytes.Buffer
	cmd := exec.Command(need.Program(t, "prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.Bytes())
		}
	})
	return &server{t, "http://" + addr}
}

// ask asks the server's API until ok is content with the answer.
func ask[T any](s *server, what, path string, ok func(T) bool) T {
	s.t.Helper()
	ctx := testContext(s.t)
	var last string
	for ; ; sleepAbout(ctx, s.t, what, &last) {
		body, err := tryGet(ctx, s.url+path)
		if last = body; err != nil {
			last = err.Error()
			continue
		}
		var reply struct{ Data T }
		if err := json.Unmarshal([]byte(body), &reply); err != nil {
			s.t.Fatalf("%s: %v: %s", path, err, body)
		}
		if ok(reply.Data) {
			return reply.Data
		}
	}
}

func sleepAbout(ctx context.Context, t *testing.T, what string, last *string) {
	t.Helper()
	if ctx.Err() != nil {
		t.Fatalf("%s: last answer: %.2000s", what, *last)
	}
	sleep(ctx, t, what+": last answer: "+*last)
}

type targets struct {
	ActiveTargets []struct{ Health, LastError string }
}

type rules struct {
	Groups []struct {
		Rules []struct{ Name, Health, LastError string }
	}
}

type vector struct {
	Result []struct{ Value [2]any }
}

func TestPrometheusScrapesAnEngine(t *testing.T) {
	need.Seconds(t)
	need.Program(t, "prometheus")
	e := running(t)
	s := startPrometheus(t, e.HTTP())
	ask(s, "the target is up", "/api/v1/targets", func(v targets) bool {
		return len(v.ActiveTargets) == 1 && v.ActiveTargets[0].Health == "up"
	})
	want := len(alerts(t))
	ask(s, "all rules are evaluated", "/api/v1/rules", func(v rules) bool {
		n := 0
		for _, g := range v.Groups {
			for _, r := range g.Rules {
				if r.LastError != "" {
					t.Fatalf("%s: %s", r.Name, r.LastError)
				}
				if r.Health == "ok" {
					n++
				}
			}
		}
		return n == want
	})
	page := get(t, "http://"+e.HTTP()+"/metrics")
	for series, value := range map[string]string{
		`streamwright_items{state="completed",type="email"}`: "4", `streamwright_items{state="dead",type="email"}`: "1",
		`streamwright_queued{priority="5",type="report"}`: "3", `streamwright_failures_total{code="invalid_input",type="email"}`: "1",
		`streamwright_dead_total{reason="not_retryable",type="email"}`: "1", `streamwright_rejections_total{code="bad_params"}`: "1",
		`streamwright_transitions_total{from="running",to="completed",type="email"}`: "4", `streamwright_attempts_total{attempt="1",type="email"}`: "5",
		`streamwright_run_seconds_count{outcome="completed",type="email"}`: "4", `streamwright_queued_seconds_count{priority="5",type="email"}`: "5",
		`streamwright_item_seconds_count{outcome="dead",type="email"}`: "1", `streamwright_ready`: "1", `streamwright_desired_workers{type="report"}`: "1",
	} {
		if !strings.Contains(page, "\n"+series+" "+value+"\n") {
			t.Errorf("the engine has no %s %s", series, value)
		}
		ask(s, series, "/api/v1/query?query="+url.QueryEscape(series), func(v vector) bool {
			return len(v.Result) == 1 && v.Result[0].Value[1] == value
		})
	}
	s.answers(t, e.HTTP())
}
