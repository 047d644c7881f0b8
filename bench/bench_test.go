package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/need"
)

// TestMain lets the test binary be the client's process, as the command is.
func TestMain(m *testing.M) {
	if text := os.Getenv(clientEnv); text != "" {
		if err := clientMain(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// folder is a temporary folder that the user of PostgreSQL can enter.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "streamwright-bench-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// needPrograms skips a test of systems whose programs are not there.
func needPrograms(t *testing.T) {
	t.Helper()
	need.Seconds(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		need.Missing(t, "there is no redis-server on the machine (the package redis-server)")
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		need.Missing(t, "there is no PostgreSQL server on the machine (the package postgresql)")
	}
}

// Every system, with its real servers, completes what is submitted to it, one by one and
// in bulk, once each, and says so only then.
func TestEachItemIsCompletedOnce(t *testing.T) {
	needPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir := folder(t)
	tools, err := prepareTools(ctx, dir, systems())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range systems() {
		t.Run(s.ID, func(t *testing.T) {
			h := &Host{Dir: folder(t), Tools: tools}
			defer func() {
				if _, err := h.End(); err != nil {
					t.Error(err)
				}
			}()
			addr, err := h.Start(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			queue, err := s.dial(ctx, addr, 20)
			if err != nil {
				t.Fatal(err)
			}
			const n, single = 300, 100
			r := newRun(Options{}, Case{Items: n}, queue)
			defer func() {
				if err := errors.Join(r.stop(), queue.Close()); err != nil {
					t.Error(err)
				}
			}()
			if err := measure.Bulk(ctx, queue, single, n-single, measure.BulkCallers); err != nil {
				t.Fatal(err)
			}
			if done, err := queue.Drained(ctx, n); err != nil || done {
				t.Fatalf("with a backlog and no worker, drained is %v (%v)", done, err)
			}
			if err := r.work(ctx, r.saw); err != nil {
				t.Fatal(err)
			}
			if err := measure.Single(ctx, queue, 0, single, 8); err != nil {
				t.Fatal(err)
			}
			if err := measure.Drain(ctx, queue, r.tally); err != nil {
				t.Fatal(err)
			}
			if more := r.tally.More(); more != 0 {
				t.Errorf("%.0f items were handled again", more)
			}
		})
	}
}

// The command as a whole: processes, counters, the page and its plots.
func TestQuick(t *testing.T) {
	need.Seconds(t)
	dir := folder(t)
	t.Setenv("TMPDIR", dir)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--quick", "--only", "jetstream", "--loads", "endtoend,pickup,depth", "--out", dir}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "COMPARISON.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| End to end, items/s | ", "| Pickup at 300/s, p99, ms | ", "| Filling it, items/s | ", "| CPU of the servers, end to end, ms per 1,000 items | ", "JetStream, sync always** (nats.go "} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, name := range []string{"throughput-fsync.svg", "pickup-fsync.svg", "cost-interval.svg"} {
		checkXML(t, filepath.Join(dir, "plots", name))
	}
	left, err := filepath.Glob(filepath.Join(dir, "streamwright-bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the data is still there: %q (%v)", left, err)
	}
}

func checkXML(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Inf")) {
		t.Errorf("%s has a number that is none:\n%s", file, b)
	}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// What a server has used is known after its end too, with what its children used.
func TestEndTellsWhatWasUsed(t *testing.T) {
	h := &Host{Dir: t.TempDir()}
	if err := h.Run(nil, "sh", "-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; : done`); err != nil {
		t.Fatal(err)
	}
	<-h.done
	used, err := h.End()
	if err != nil || used.CPU < 10*time.Millisecond {
		t.Errorf("used %v (%v)", used, err)
	}
}

func TestAServerThatEndsIsNotAwaited(t *testing.T) {
	h := &Host{Dir: t.TempDir()}
	_, err := h.Start(t.Context(), System{start: func(_ context.Context, h *Host, _ string) error {
		return h.Run(nil, "sh", "-c", "echo no such disk >&2; exit 1")
	}})
	if err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("the error is %v: it should have what the server said", err)
	}
	if _, err := h.End(); err != nil {
		t.Error(err)
	}
}

// made returns a report of samples that are made up: River submits twice as many items
// in bulk as Streamwright, and has half of them end to end.
func made(t *testing.T, others float64) *report {
	r := &report{Options: Options{Items: 100, Depth: 100, Slots: 1, Rates: []int{300}, Seconds: 1}, Systems: []System{streamwrightSystem(Fsync), riverSystem(Fsync)}, page: filepath.Join(t.TempDir(), "page.md"), plots: "plots"}
	add := func(id, label string, v Values) {
		r.samples = append(r.samples, Sample{id, Case{Label: label, Items: 100}, v, Usage{Others: others}})
	}
	for _, k := range []float64{1, 1.5, 0.9} {
		add("streamwright-always", "Bulk submit", Values{valueRate: 40_000 * k})
		add("river-fsync", "Bulk submit", Values{valueRate: 80_000 * k})
		add("streamwright-always", "Pickup at 300/s", Values{valueP50: 1, valueP99: 2, valueMax: 3})
		add("river-fsync", "Pickup at 300/s", Values{valueP50: 4, valueP99: 5, valueMax: 6})
	}
	return r
}

// written is the page of a report.
func written(t *testing.T, r *report) string {
	t.Helper()
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(r.page)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The page says where others are ahead, and nothing of where they are not.
func TestThePageIsFair(t *testing.T) {
	r := made(t, 0.01)
	text := written(t, r)
	for _, want := range []string{
		"| Bulk submit, items/s | 40,000 (36,000–60,000) | 80,000 (72,000–120,000) |",
		"| Bulk submit, items/s | River, fsync: 80,000 | Streamwright, always: 40,000 |",
		"| Pickup at 300/s, p99, ms | 2.00 (2.00–2.00) | 5.00",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| Pickup at 300/s, p50, ms | River") || strings.Contains(text, "provisional") || strings.Contains(text, "| End to end") {
		t.Errorf("the page has what was not measured:\n%s", text)
	}
	checkXML(t, filepath.Join(filepath.Dir(r.page), "plots", "throughput-fsync.svg"))
	checkXML(t, filepath.Join(filepath.Dir(r.page), "plots", "pickup-fsync.svg"))
}

// Figures that read alike are a tie: nobody is ahead.
func TestATieIsNotAhead(t *testing.T) {
	for theirs, ahead := range map[float64]bool{0.75: false, 0.7496: false, 0.7504: false, 0.76: false, 0.74: true} {
		r := made(t, 0)
		r.samples = nil
		for id, ms := range map[string]float64{"streamwright-always": 0.75, "river-fsync": theirs} {
			r.samples = append(r.samples, Sample{System: id, Case: Case{Label: "Pickup at 300/s", Items: 100}, Values: Values{valueP50: ms, valueP99: 1, valueMax: 1}})
		}
		if text := written(t, r); strings.Contains(text, "Where others are ahead") != ahead {
			t.Errorf("0.75 ms beside %v ms:\n%s", theirs, text)
		}
	}
}

func TestANoisyRunSaysSo(t *testing.T) {
	r := made(t, 0.3)
	r.Failed = []string{"River, fsync, 3000/s: failed: no connection"}
	text := written(t, r)
	for _, want := range []string{"\n\n- River, fsync, 3000/s: failed: no connection\n", "provisional run, on a noisy machine.** Other programs, or the host, had 30.0 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestFlags(t *testing.T) {
	for text, args := range map[string][]string{
		`no "sidekiq"`:    {"--only", "river,sidekiq"},
		`no "everything"`: {"--loads", "everything"},
		"more than zero":  {"--rounds", "0"},
		"only flags":      {"river"},
		"exclude":         {"--quick", "--middle"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: the error is %v, it should have %q", args, err, text)
		}
	}
	all, err := systemsNamed("river,asynq-always")
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	if want := []string{"river-fsync", "river-async", "asynq-always"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%q (%v)", ids, err)
	}
}

func TestSpread(t *testing.T) {
	for want, vs := range map[string][]float64{"–": nil, "3.00": {3}, "2.00 (1.00–3.00)": {3, 1}, "2.00 (1.00–9.00)": {9, 1, 2}} {
		if got := spreadOf(vs).String(); got != want {
			t.Errorf("%v: %q, it should be %q", vs, got, want)
		}
	}
}
