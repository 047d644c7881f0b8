package bench

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// cost holds what this process, with the server, the clients and the workers in
// it, has used so far. On a machine that others share, its differences tell more
// than a wall clock.
type cost struct {
	cpu    time.Duration // user and system
	allocs uint64
	bytes  uint64
	msgs   int64 // to and from the server
}

func (r *rig) costNow() cost {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	in, out := r.eng.Traffic()
	return cost{cpu: processCPU(), allocs: m.Mallocs, bytes: m.TotalAlloc, msgs: int64(in + out)}
}

// costs writes the cost of each of n items since then.
func (r *rig) costs(what string, n int, since cost) {
	now, per := r.costNow(), float64(n)
	if now.cpu > 0 {
		r.t.row(what+", CPU an item", float64(now.cpu-since.cpu)/per/float64(time.Microsecond), "µs", 0)
	}
	r.t.row(what+", messages an item", float64(now.msgs-since.msgs)/per, "messages", 0)
	r.t.row(what+", allocated an item", float64(now.allocs-since.allocs)/per, "objects", 0)
	r.t.row(what+", allocated an item", float64(now.bytes-since.bytes)/per/1024, "KiB", 0)
}

// writeAllocs writes a profile of all allocations.
func writeAllocs(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// measureKinds measures the cost of items that are found by more than their type
// and state: burn-downs like (c), of items with labels, and of items whose first
// attempt fails with an error text.
func (r *rig) measureKinds(ctx context.Context) error {
	labels := map[string]string{"customer": "c-4711", "region": "eu-west", "plan": "gold", "build": "2026.11"}
	failing := func(_ context.Context, it *workers.RawItem) (any, error) {
		if it.Attempt == 1 {
			return nil, errors.New("dial tcp 10.0.0.7:5432: connect: connection refused after 3 tries")
		}
		return nil, nil
	}
	for _, k := range []struct {
		name, typ string
		edit      func(int, *streamwright.Item)
		handle    workers.Handler
	}{
		{"(h) burn-down of plain items", "kind-plain", nil, nothing},
		{"(h) burn-down of items with 4 labels", "kind-labels", func(_ int, it *streamwright.Item) { it.Labels = labels }, nothing},
		{"(h) burn-down of items that fail once", "kind-failing", nil, failing},
	} {
		if _, err := r.burnDown(ctx, k.name, k.typ, k.edit, k.handle); err != nil {
			return err
		}
	}
	return nil
}
