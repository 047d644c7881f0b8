package live

import (
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/streamwright/streamwright/api/figures"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

type trendsReply struct {
	StepMS int64   `json:"step_ms"`
	At     []int64 `json:"at"`
	Types  map[string]map[string][]*int64
}

func TestRing(t *testing.T) {
	total := map[events.Type]figures.Total{"email": {Tally: figures.Tally{Submitted: 1}}}
	var r ring
	r.begin(maps.Clone(total)) // what was before does not count
	from := time.UnixMilli(1_000_000)
	const samples = MaxSamples + 40
	for i := range samples {
		email, other := total["email"], total["other"]
		email.Add(figures.Tally{Submitted: 2, Completed: 1})
		other.Add(figures.Tally{Failed: 1, Dead: 1})
		email.Queued, email.Running = int64(i), 3
		total["email"], total["other"] = email, other
		if i == samples/2 {
			total["gone"] = figures.Total{Queued: 1}
		} else {
			delete(total, "gone")
		}
		oldest := map[events.Type]int64{"email": int64(10 * i)}
		if i == samples-1 {
			oldest = nil
		}
		r.sample(from.Add(time.Duration(i)*SampleEvery), maps.Clone(total), oldest)
	}
	got := decode[trendsReply](t, string(r.render(MaxSamples, nil)))
	if got.StepMS != 10_000 || len(got.At) != MaxSamples || got.At[0] != 1_000_000+40*10_000 || len(got.Types) != 2 {
		t.Fatalf("%d ms, %d samples from %d, %d types", got.StepMS, len(got.At), got.At[0], len(got.Types))
	}
	email, other := got.Types["email"], got.Types["other"]
	for name, want := range map[string]int64{"queued": 40, "running": 3, "oldest_ms": 400, "submitted": 2, "completed": 1, "failed": 0, "dead": 0} {
		if row := email[name]; len(row) != MaxSamples || *row[0] != want {
			t.Errorf("%s begins with %v, want %d", name, row[0], want)
		}
	}
	if *other["failed"][0] != 1 || *other["dead"][5] != 1 || *other["queued"][0] != 0 || *other["oldest_ms"][MaxSamples-1] != 0 {
		t.Errorf("other: %v", other)
	}
	if last := email["oldest_ms"][MaxSamples-1]; last != nil {
		t.Errorf("the age that the engine did not say is %d", *last)
	}
	few := decode[trendsReply](t, string(r.render(6, map[events.Type]bool{"other": true, "none": true})))
	if len(few.At) != 6 || few.At[5] != got.At[MaxSamples-1] || len(few.Types) != 1 || len(few.Types["other"]["dead"]) != 6 {
		t.Errorf("the last six: %+v", few)
	}
}

// The sampler asks for the oldest only while something is queued.
func TestSampler(t *testing.T) {
	p := usualPace
	p.sample = 20 * time.Millisecond
	e := &engine{total: figures.Total{Queued: 7, Running: 3}}
	_, url := start(t, e, p, nil)
	get := func() trendsReply {
		resp, err := http.Get(url + "/trends?minutes=5")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return readTrends(t, resp)
	}
	defer http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(testTimeout)
	reach := func(what string, ok func(trendsReply, int) bool) {
		t.Helper()
		for {
			r := get()
			if n := len(r.At); n > 0 && ok(r, n-1) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, r)
			}
		}
	}
	reach("queued", func(r trendsReply, last int) bool {
		s := r.Types["email"]
		return s != nil && *s["queued"][last] == 7 && *s["running"][last] == 3 && *s["oldest_ms"][last] == 70
	})
	e.set(figures.Total{})
	reach("idle", func(r trendsReply, last int) bool {
		s := r.Types["email"]
		return *s["queued"][last] == 0 && *s["running"][last] == 0 && *s["oldest_ms"][last] == 0
	})
	if asked := e.count(wire.APIStats); asked == 0 {
		t.Error("the engine was not asked")
	}
	reach("one more", func(_ trendsReply, last int) bool { return last > 2 })
	asked := e.count(wire.APIStats)
	before := len(get().At)
	reach("idle samples", func(_ trendsReply, last int) bool { return last > min(before+3, 28) })
	if now := e.count(wire.APIStats); now > asked+1 { // one may have been under way
		t.Errorf("asked %d times with nothing queued", now-asked)
	}
	if e.count(wire.APIWorkers) != 0 {
		t.Error("the sampler asked for the workers")
	}
}

func readTrends(t testing.TB, resp *http.Response) trendsReply {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v: %s", resp.Status, err, data)
	}
	return decode[trendsReply](t, string(data))
}
