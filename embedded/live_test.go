package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// liveFeed reads a live feed of an engine.
type liveFeed struct {
	t *testing.T
	r *bufio.Reader
}

func openLive(t *testing.T, e *Engine, query string) *liveFeed {
	t.Helper()
	req, err := http.NewRequestWithContext(testContext(t), "GET", "http://"+e.HTTP()+"/api/v1/live"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close(); tr.CloseIdleConnections() })
	if resp.StatusCode != 200 {
		t.Fatalf("live feed: %s", resp.Status)
	}
	return &liveFeed{t, bufio.NewReader(resp.Body)}
}

type liveStats struct {
	Stats   wire.StatsReply
	Workers []wire.WorkerInfo
}

// next reads the next frame with a name into v.
func (f *liveFeed) next(name string, v any) error {
	var event string
	for {
		line, err := f.r.ReadString('\n')
		if err != nil {
			return err
		}
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case field == "event":
			event = value
		case field == "data" && event == name:
			return json.Unmarshal([]byte(value), v)
		}
	}
}

// until reads figures until they are as wanted.
func (f *liveFeed) until(what string, ok func(liveStats) bool) {
	f.t.Helper()
	for {
		var s liveStats
		if err := f.next("stats", &s); err != nil {
			f.t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok(s) {
			return
		}
	}
}

func queuedOf(s liveStats, typ string) int64 {
	for _, t := range s.Stats.Types {
		if t.Type == typ {
			return t.States["queued"]
		}
	}
	return -1
}

func TestLiveFigures(t *testing.T) {
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	f := openLive(t, e, "")
	f.until("figures at once", func(s liveStats) bool { return s.Workers != nil })
	sent := submit(t, e, wire.Submit{Type: "email"})
	f.until("the item", func(s liveStats) bool { return queuedOf(s, "email") == 1 })
	work(t, e, "email")
	f.until("the worker, and the item's end", func(s liveStats) bool { return len(s.Workers) == 1 && queuedOf(s, "email") == 0 })
	waitFor(t, e, sent, events.StateCompleted)

	// A stop ends the feed, and waits for nobody.
	done := make(chan error, 1)
	go func() { var s liveStats; done <- f.next("nothing", &s) }()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; err != io.EOF {
		t.Errorf("the feed ends with %v", err)
	}
}

// More happens than can be read: what is shown and what is skipped is all there
// was, for one who watches everything and for one who watches a type.
func TestLiveSample(t *testing.T) {
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0"})
	all, some := openLive(t, e, ""), openLive(t, e, "?types=resize")
	for _, f := range []*liveFeed{all, some} { // both are known to the engine
		f.until("figures", func(liveStats) bool { return true })
	}
	const items = 3000
	c := mustClient(t, e)
	var work []streamwright.Item
	for i := range items {
		it := streamwright.Item{Type: "email"}
		if i%10 == 0 {
			it.Type = "resize"
		}
		work = append(work, it)
	}
	if _, err := c.SubmitMany(testContext(t), work); err != nil {
		t.Fatal(err)
	}
	count := func(f *liveFeed, want int, types ...string) {
		t.Helper()
		shown, skipped := 0, 0
		for shown+skipped < want {
			var got struct {
				Events  []wire.HistoryEvent
				Skipped int
			}
			if err := f.next("events", &got); err != nil {
				t.Fatalf("%d shown, %d skipped, of %d: %v", shown, skipped, want, err)
			}
			shown, skipped = shown+len(got.Events), skipped+got.Skipped
			for _, ev := range got.Events {
				if !strings.Contains(strings.Join(types, " "), ev.Type) {
					t.Errorf("shown: %+v", ev)
				}
			}
			if len(got.Events) > 20 {
				t.Errorf("%d events in a frame", len(got.Events))
			}
		}
		if shown+skipped != want || shown == 0 || skipped == 0 {
			t.Errorf("%d shown, %d skipped, of %d", shown, skipped, want)
		}
	}
	count(all, 2*items, "email", "resize") // created and queued
	count(some, 2*items/10, "resize")
}

// The hour begins with the process: what the log has of before is not of it, but
// what is there is counted.
func TestTrendsAfterARestart(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	o := Options{Dir: dir, NATSListen: "off", HTTP: "127.0.0.1:0"}
	e, err := Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		submit(t, e, wire.Submit{Type: "email"})
	}
	stopEngine(t, e)
	e = mustStart(t, o)
	type row = map[string][]int64
	read := func() (r struct {
		At    []int64
		Types map[string]row
	}) {
		resp, err := http.Get("http://" + e.HTTP() + "/api/v1/trends?minutes=60")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	defer http.DefaultClient.CloseIdleConnections()
	if r := read(); len(r.At) != 0 || len(r.Types) != 0 {
		t.Errorf("a fresh engine has %+v", r)
	}
	submit(t, e, wire.Submit{Type: "email"})
	r := read()
	f := openLive(t, e, "") // its figures come at least every ten seconds: read on with them
	for len(r.At) == 0 {
		f.until("the next figures", func(liveStats) bool { return true })
		r = read()
	}
	if s := r.Types["email"]; s["queued"][0] != 6 || s["submitted"][0] != 1 || len(s["oldest_ms"]) != 1 {
		t.Errorf("the first sample: %+v", s)
	}
}
