package main

import (
	"bytes"
	"context"
	"encoding/json"
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
	"testing/synctest"
	"time"

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
		t.Run(s.About().ID, func(t *testing.T) {
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
			peer, err := s.Dial(ctx, addr, 20)
			if err != nil {
				t.Fatal(err)
			}
			const n, single = 300, 100
			r := &Run{Peer: peer, Case: Case{Items: n}}
			defer func() {
				if err := errors.Join(r.end(), peer.Close()); err != nil {
					t.Error(err)
				}
			}()
			items := payloads(0, n)
			if err := r.bulk(ctx, items[single:]); err != nil {
				t.Fatal(err)
			}
			if done, err := peer.Drained(ctx, n); err != nil || done {
				t.Fatalf("with a backlog and no worker, drained is %v (%v)", done, err)
			}
			if err := r.work(ctx); err != nil {
				t.Fatal(err)
			}
			if err := r.single(ctx, items[:single], 8); err != nil {
				t.Fatal(err)
			}
			if err := r.drain(ctx); err != nil {
				t.Fatal(err)
			}
			if more := r.tally.more.Load(); more != 0 {
				t.Errorf("%d items were handled again", more)
			}
		})
	}
}

// The command as a whole: processes, counters, the page and its plots.
func TestQuick(t *testing.T) {
	need.Seconds(t)
	dir := folder(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--quick", "--only", "jetstream", "--loads", "endtoend,pickup,depth", "--out", dir, "--dir", dir}, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "COMPARISON.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| End to end | ", "| 300/s | ", "| Filling it, items/s | ", "| CPU of the servers, end to end, ms per 1,000 items | ", "JetStream, sync always** (nats.go "} {
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

// slowPeer takes one submit at a time, and hands the item to the handler when it is done.
type slowPeer struct {
	Peer
	takes  time.Duration
	turn   chan struct{}
	handle func(Payload)
}

func (p *slowPeer) Submit(_ context.Context, v Payload) error {
	p.turn <- struct{}{}
	time.Sleep(p.takes)
	<-p.turn
	p.handle(v)
	return nil
}

func (p *slowPeer) Work(_ context.Context, handle func(Payload)) (func() error, error) {
	p.handle = handle
	return func() error { return nil }, nil
}

// A system that takes a tenth of what comes shows the whole queue that builds up: of 100
// items that are due within 0.1 s the last is handled after a second, 901 ms late. A
// closed loop would show 10 ms for each.
func TestPickupCountsFromTheIntendedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slowPeer{takes: 10 * time.Millisecond, turn: make(chan struct{}, 1)}
		r := &Run{Peer: p, Case: Case{N: 1000, Items: 100}}
		if err := (pickupLoad{}).Prepare(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		v, err := pickupLoad{}.Measure(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		// The order in which the waiting submits get their turn is open, so only what
		// does not depend on it: the last one handled is at 1,000 ms, and was due before 100 ms.
		if v[valueMax] < 901 || v[valueMax] > 1000 || v[valueP50] < 400 {
			t.Errorf("%v", v)
		}
	})
}

// What a server has used is known after its end too, with what its children used.
func TestEndTellsWhatWasUsed(t *testing.T) {
	h := &Host{Dir: t.TempDir()}
	if err := h.Run(nil, "sh", "-c", `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; : done`); err != nil {
		t.Fatal(err)
	}
	<-h.procs[0].done
	used, err := h.End()
	if err != nil || used.CPU < tick {
		t.Errorf("used %v (%v)", used, err)
	}
}

func TestAServerThatEndsIsNotAwaited(t *testing.T) {
	h := &Host{Dir: t.TempDir()}
	if err := h.Run(nil, "sh", "-c", "echo no such disk >&2; exit 1"); err != nil {
		t.Fatal(err)
	}
	err := h.Ready(t.Context(), func(context.Context) error { return errors.New("refused") })
	if err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Errorf("the error is %v: it should have what the server said", err)
	}
	if _, err := h.End(); err != nil {
		t.Error(err)
	}
}

// made returns a report of samples that are made up: River submits twice as many items
// in bulk as Streamwright, and has half of them end to end.
func made(others float64) *report {
	r := &report{set: settings{Options: Options{Items: 100, Depth: 100, Slots: 1, Rates: []int{300}, Seconds: 1}, rounds: 3}, rounds: 3}
	for _, s := range []System{streamwrightSystem{Fsync}, riverSystem{Fsync}} {
		r.systems = append(r.systems, s.About())
	}
	add := func(id, load, label string, v Values) {
		r.samples = append(r.samples, Sample{id, load, Case{Label: label, Items: 100}, v, Usage{Others: others}})
	}
	for _, k := range []float64{1, 1.5, 0.9} {
		add("streamwright-always", "bulk", "Bulk submit", Values{valueRate: 40_000 * k})
		add("river-fsync", "bulk", "Bulk submit", Values{valueRate: 80_000 * k})
		add("streamwright-always", "pickup", "300/s", Values{valueP50: 1, valueP99: 2, valueMax: 3})
		add("river-fsync", "pickup", "300/s", Values{valueP50: 4, valueP99: 5, valueMax: 6})
	}
	return r
}

// The page says where others are ahead, and nothing of where they are not.
func TestThePageIsFair(t *testing.T) {
	dir := t.TempDir()
	r := made(0.01)
	page := filepath.Join(dir, "page.md")
	if err := r.write(page, "plots"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"| Bulk submit | 40,000 (36,000–60,000) | 80,000 (72,000–120,000) |",
		"| Bulk submit, items/s | River, fsync: 80,000 | Streamwright, always: 40,000 |",
		"| 300/s | 1.00 (1.00–1.00) / 2.00 (2.00–2.00) / 3.00 (3.00–3.00) | 4.00",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "Pickup at 300/s") || strings.Contains(text, "provisional") || strings.Contains(text, "| End to end |") {
		t.Errorf("the page has what was not measured:\n%s", text)
	}
	checkXML(t, filepath.Join(dir, "plots", "throughput-fsync.svg"))
	checkXML(t, filepath.Join(dir, "plots", "pickup-fsync.svg"))
}

func TestANoisyRunSaysSo(t *testing.T) {
	r := made(0.3)
	r.failed = []string{"River, fsync, 3000/s: failed: no connection"}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := r.write(page, "plots"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "\n\n- River, fsync, 3000/s: failed: no connection\n") {
		t.Errorf("%v\n%s", err, b)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "provisional run, on a noisy machine.** Other programs, or the host, had 30.0 %") {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.04: "0.040", 0.5234: "0.523", 4.56: "4.56", 45.6: "45.6", 456.7: "457", 1234: "1,230", 999.6: "1,000", 1234567: "1,230,000"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) is %q, it should be %q", v, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	for want, vs := range map[string][]float64{"–": nil, "3.00": {3}, "2.00 (1.00–3.00)": {3, 1}, "2.00 (1.00–9.00)": {9, 1, 2}} {
		if got := spreadOf(vs).String(); got != want {
			t.Errorf("%v: %q, it should be %q", vs, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(i+1))
	}
	if quantile(d, 0.5) != 50 || quantile(d, 0.99) != 99 || quantile(d[:1], 0.99) != 1 {
		t.Error(quantile(d, 0.5), quantile(d, 0.99), quantile(d[:1], 0.99))
	}
}

func TestPayloadsHaveOneSize(t *testing.T) {
	for _, seq := range []int{0, 9, 123_456, 999_999} {
		if b, err := json.Marshal(payload(seq)); err != nil || len(b) != 256 {
			t.Errorf("item %d has %d bytes (%v)", seq, len(b), err)
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
	all, err := pick("river,asynq-always", systems(), isSystem)
	var ids []string
	for _, s := range all {
		ids = append(ids, s.About().ID)
	}
	if want := []string{"river-fsync", "river-async", "asynq-always"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%q (%v)", ids, err)
	}
}

func TestTallyCountsEachOnce(t *testing.T) {
	c := newTally(2)
	c.saw(1)
	c.saw(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.wait(ctx); err == nil || !strings.Contains(err.Error(), "1 of 2 items were never handled") {
		t.Error(err)
	}
	c.saw(0)
	if err := c.wait(t.Context()); err != nil || c.more.Load() != 1 {
		t.Error(err, c.more.Load())
	}
	c.saw(7)
	if err := c.wait(t.Context()); err == nil {
		t.Error("an item that nobody submitted goes unnoticed")
	}
}
