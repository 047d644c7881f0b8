package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 2 * time.Minute

// engine is a Caller that counts, and fails when it is told to.
type engine struct {
	mu     sync.Mutex
	calls  map[string]int
	broken bool
	total  figures.Total
}

func (e *engine) totals() (map[events.Type]figures.Total, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return map[events.Type]figures.Total{"email": e.total}, nil
}

func (e *engine) set(t figures.Total) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total = t
}

func (e *engine) Call(_ context.Context, endpoint string, _ []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		e.calls = map[string]int{}
	}
	e.calls[endpoint]++
	if e.broken {
		return nil, errors.New("the engine is not there")
	}
	if endpoint == wire.APIWorkers {
		return []byte(`{"workers":[{"worker":"w1"}]}`), nil
	}
	return json.Marshal(wire.StatsReply{Types: []wire.TypeStats{{Type: "email", States: map[string]int64{"queued": e.total.Queued, "running": 2, "claimed": 1}, Oldest: events.Millis(70)}}})
}

func (e *engine) Document(context.Context, string, bool) ([]byte, error) {
	return nil, errors.New("a fake has no items")
}

func (e *engine) count(endpoint string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[endpoint]
}

// start starts a hub with a server of its own; both are stopped with the test.
func start(t testing.TB, e *engine, p pace, change func(*http.Server)) (*Hub, string) {
	t.Helper()
	h, err := New(Config{Engine: e, Totals: e.totals, pace: p})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/live", h.LiveHandler())
	mux.Handle("/trends", h.TrendsHandler())
	srv := httptest.NewUnstartedServer(mux)
	if change != nil {
		change(srv.Config)
	}
	srv.Start()
	h.Start()
	t.Cleanup(func() {
		h.Stop()
		srv.Close()
	})
	return h, srv.URL
}

// feed reads a live feed.
type feed struct {
	t    testing.TB
	body io.ReadCloser
	r    *bufio.Reader
}

func connect(t testing.TB, url string) *feed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s: %s", url, resp.Status, body)
	}
	return &feed{t, resp.Body, bufio.NewReader(resp.Body)}
}

// next is the next frame: the name of its event, or "" for a comment.
func (f *feed) next() (name, data string, err error) {
	for {
		line, err := f.r.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		line = strings.TrimSuffix(line, "\n")
		switch field, value, _ := strings.Cut(line, ": "); {
		case line == "" && (name != "" || data != ""):
			return name, data, nil
		case field == "event":
			name = value
		case field == "data":
			data = value
		case strings.HasPrefix(line, ":"):
			data = line
		}
	}
}

// want reads up to the next frame with a name.
func (f *feed) want(name string) string {
	f.t.Helper()
	for {
		got, data, err := f.next()
		if err != nil {
			f.t.Fatalf("waiting for %q: %v", name, err)
		}
		if got == name {
			return data
		}
	}
}

type shownEvents struct {
	Events  []wire.HistoryEvent `json:"events"`
	Skipped int                 `json:"skipped"`
}

func decode[T any](t testing.TB, data string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

func event(seq int, kind events.Kind, typ events.Type) events.Event {
	ev := events.Event{Seq: events.Seq(seq), Kind: kind, Type: typ, At: time.Unix(int64(seq), 0).UTC()}
	ev.ID[15] = byte(seq)
	switch kind {
	case events.KindCreated:
		ev.Body = &events.Created{Params: json.RawMessage(`"` + strings.Repeat("p", 100_000) + `"`)}
	case events.KindFailed:
		ev.Body = &events.Failed{Error: "broken"}
	case events.KindClaimed:
		ev.Body = &events.Claimed{}
	}
	return ev
}

func commit(evs ...events.Event) *core.Changes { return &core.Changes{History: evs} }

// Whatever happens, each client's shown and skipped events are all there were
// of its types, in order, and what is kept is bounded.
func TestSampling(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		types := make([]events.Type, 1+rng.IntN(60))
		for i := range types {
			types[i] = events.Type(fmt.Sprintf("t%d", i))
		}
		kinds := []events.Kind{events.KindClaimed, events.KindClaimed, events.KindClaimed, events.KindCreated, events.KindCompleted, events.KindFailed}
		var w window
		total := map[events.Type]int{}
		n := rng.IntN(4000)
		for i := range n {
			ev := event(i+1, kinds[rng.IntN(len(kinds))], types[rng.IntN(1+rng.IntN(len(types)))])
			total[ev.Type]++
			w.add(commit(ev))
		}
		kept := 0
		for _, x := range w.types {
			kept += len(x.kept)
			if len(x.kept) == 0 {
				t.Fatal("a type of which nothing is kept")
			}
		}
		if kept != w.kept || kept > maxWindow {
			t.Fatalf("%d events are kept, and it says %d", kept, w.kept)
		}
		for _, filter := range []map[events.Type]bool{nil, {types[0]: true}, {types[0]: true, types[len(types)-1]: true, "none": true}} {
			want, of := 0, 0
			for typ, n := range total {
				if wanted(filter, typ) {
					want += n
					of++
				}
			}
			shown, skipped := w.pick(filter)
			if len(shown)+skipped != want || len(shown) > MaxEvents || len(shown) < min(want, of, MaxEvents) {
				t.Fatalf("seed %d: %d shown and %d skipped of %d", seed, len(shown), skipped, want)
			}
			if !slices.IsSortedFunc(shown, func(a, b wire.HistoryEvent) int { return int(a.Seq) - int(b.Seq) }) {
				t.Fatal("out of order")
			}
			seen := map[string]bool{}
			for _, ev := range shown {
				if seen[ev.Type] = true; !wanted(filter, events.Type(ev.Type)) || len(ev.Data) > maxEventData {
					t.Fatalf("shown to one who wants %v: %+v", filter, ev)
				}
			}
			if len(seen) != min(of, MaxEvents) {
				t.Fatalf("%d of %d types are shown", len(seen), of)
			}
		}
	}
}

func TestWhatTellsMoreIsShown(t *testing.T) {
	var w window
	for i := range 10_000 {
		w.add(commit(event(i, events.KindClaimed, "email")))
	}
	w.add(commit(event(10_000, events.KindFailed, "email"), event(10_001, events.KindCreated, "email")))
	w.add(&core.Changes{Rejected: []core.RejectedChange{{Seq: 10_002, Type: "email", Body: &events.Rejected{Code: "bad", Text: strings.Repeat("x", 9000)}}, {Cut: 4}}})
	shown, skipped := w.pick(nil)
	if len(shown) != MaxEvents || skipped != 10_003-MaxEvents {
		t.Fatalf("%d shown, %d skipped", len(shown), skipped)
	}
	kinds := map[events.Kind]bool{}
	for _, ev := range shown {
		kinds[ev.Kind] = true
	}
	if !kinds[events.KindFailed] || !kinds[events.KindCreated] || !kinds[events.KindRejected] {
		t.Errorf("shown are %v", kinds)
	}
	if data := string(shown[len(shown)-1].Data); !strings.Contains(data, `"bad"`) || strings.Contains(data, "xxx") {
		t.Errorf("the rejected submission is shown as %s", data)
	}
}

func TestSlowClientGetsTheNewest(t *testing.T) {
	c := &client{wake: make(chan struct{}, 1)}
	c.putStats([]byte("old"))
	c.putStats([]byte("new"))
	for i := range 20 {
		c.putEvents(newFrame([]wire.HistoryEvent{{Seq: events.Seq(i), Kind: events.KindClaimed}}, 10))
	}
	if got := string(c.next()); got != "new" {
		t.Errorf("figures are %q", got)
	}
	total, frames := 0, 0
	for data := c.next(); data != nil; data = c.next() {
		f := decode[shownEvents](t, strings.TrimPrefix(strings.TrimSpace(string(data)), "event: events\ndata: "))
		total += len(f.Events) + f.Skipped
		if frames++; frames == 1 && f.Events[0].Seq != 20-maxBacklog {
			t.Errorf("the first frame left has event %d", f.Events[0].Seq)
		}
	}
	if frames != maxBacklog || total != 20*11 {
		t.Errorf("%d frames that stand for %d events", frames, total)
	}
}

// One who takes nothing is dropped.
func TestStuckClientIsDropped(t *testing.T) {
	p := usualPace
	p.events, p.write = time.Millisecond, 100*time.Millisecond
	h, url := start(t, &engine{}, p, nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // it is connected, and reads no more
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { h.feeds.Wait(); close(gone) }()
	failed := &events.Failed{Error: strings.Repeat("x", 3000)}
	for i := 1; ; i++ {
		ev := event(i, events.KindFailed, "email")
		ev.Body = failed
		h.Projected(commit(ev))
		select {
		case <-gone:
			return
		case <-time.After(100 * time.Microsecond):
		}
		if i > 500_000 {
			t.Fatal("it is still connected")
		}
	}
}

func TestNoMoreThanMaxClients(t *testing.T) {
	_, url := start(t, &engine{}, usualPace, nil)
	for range MaxClients {
		connect(t, url+"/live")
	}
	resp, err := http.Get(url + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || resp.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), `"code":"unavailable"`) {
		t.Errorf("%s: %s", resp.Status, body)
	}
	http.DefaultClient.CloseIdleConnections()
}

// The engine is asked once for all clients, and not at all for none.
func TestFiguresAreShared(t *testing.T) {
	e := &engine{}
	p := usualPace
	p.stats, p.refresh = time.Hour, time.Hour
	h, url := start(t, e, p, nil)
	h.Projected(commit(event(1, events.KindClaimed, "email")))
	for range 10 {
		got := decode[struct {
			At      time.Time
			Stats   wire.StatsReply
			Workers []wire.WorkerInfo
		}](t, connect(t, url+"/live").want("stats"))
		if time.Since(got.At) > testTimeout || got.Stats.Types[0].Type != "email" || got.Workers[0].Worker != "w1" {
			t.Errorf("figures are %+v", got)
		}
	}
	if n := e.count(wire.APIWorkers); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestFiguresComeWhenTheEngineIsBack(t *testing.T) {
	e := &engine{broken: true}
	p := usualPace
	p.stats, p.heartbeat = 5*time.Millisecond, 10*time.Millisecond
	h, url := start(t, e, p, nil)
	f := connect(t, url+"/live")
	for e.count(wire.APIStats) < 3 {
		f.want("") // a heartbeat
	}
	e.mu.Lock()
	e.broken = false
	e.mu.Unlock()
	f.want("stats")
	for range 3 { // and again whenever something has changed
		h.Touch()
		f.want("stats")
	}
}

// A feed outlives the time that the server gives a request to come.
func TestFeedOutlivesTheReadTimeout(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	p := usualPace
	p.heartbeat = 500 * time.Millisecond
	_, url := start(t, &engine{}, p, func(s *http.Server) { s.ReadTimeout = 2 * time.Second })
	f := connect(t, url+"/live")
	for range 5 {
		f.want("")
	}
}

func TestStopEndsFeeds(t *testing.T) {
	h, url := start(t, &engine{}, usualPace, nil)
	f := connect(t, url+"/live")
	f.want("stats")
	h.Stop()
	for {
		if _, _, err := f.next(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Errorf("the feed ends with %v", err)
			}
			break
		}
	}
	resp, err := http.Get(url + "/live")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a feed after the stop: %s", resp.Status)
	}
	h.Projected(commit(event(1, events.KindClaimed, "email"))) // the projector goes on for a while
	http.DefaultClient.CloseIdleConnections()
}

func TestWithNobodyThereNothingIsKept(t *testing.T) {
	h, err := New(Config{Engine: &engine{}, Totals: (&engine{}).totals})
	if err != nil {
		t.Fatal(err)
	}
	c := commit(event(1, events.KindClaimed, "email"), event(2, events.KindCompleted, "email"))
	h.Projected(c)
	if n := testing.AllocsPerRun(100, func() { h.Projected(c) }); n != 0 || h.window.types != nil || h.told {
		t.Errorf("%v allocations, %d types in the window", n, len(h.window.types))
	}
}

func TestBadFilters(t *testing.T) {
	_, url := start(t, &engine{}, usualPace, nil)
	many := strings.Builder{}
	for i := range maxFilterTypes + 1 {
		fmt.Fprintf(&many, "t%d,", i)
	}
	for _, path := range []string{"/live?types=a*b", "/live?types=" + many.String(), "/trends?minutes=0", "/trends?minutes=61", "/trends?minutes=x", "/trends?types=%20b%01"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
