package main

import (
	"fmt"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// What is loaded: sizes of the ranges that filters ask for.
const (
	customers = 10_000 // values of one label: about a hundred items each
	tenants   = 300
	causes    = 40 // different errors
)

// served are the types that have a worker while loading; idle types have none, so
// their items stay queued.
var (
	served = []string{"email", "charge", "sync", "thumbnail", "index", "report", "export", "notify"}
	idle   = []string{"archive", "reindex", "audit", "cleanup"}
)

// work is the params of a loaded item.
type work struct {
	N    int    `json:"n"`
	To   string `json:"to"`
	Fail int    `json:"fail,omitempty"` // which cause it dies of
}

// item is the i-th item: six in ten complete, one in twenty dies, the others wait.
func item(i int) streamwright.Item {
	h := mix(uint64(i))
	w := work{N: i, To: fmt.Sprintf("customer-%d@example.org", h%customers)}
	it := streamwright.Item{
		Type: served[h>>8%uint64(len(served))], MaxAttempts: 1, Tenant: fmt.Sprintf("tenant-%d", h>>16%tenants),
		Labels: map[string]string{"region": []string{"eu", "us", "ap", "sa", "af"}[h>>24%5], "customer": fmt.Sprintf("c%d", h%customers)},
	}
	switch p := h >> 32 % 100; {
	case p < 5:
		w.Fail = 1 + int(h>>40%causes)
	case p >= 95:
		it.Delay = time.Duration(1+h>>40%240) * time.Hour
	case p >= 65:
		it.Type = idle[h>>40%uint64(len(idle))]
	}
	if i%50 == 0 {
		it.DedupKey = fmt.Sprintf("order-%d", i)
	}
	it.Params = w
	return it
}

// mix spreads the bits of a number (splitmix64's last step).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fail is the error of a cause, with numbers in it as real ones have.
func fail(w work) error {
	host := fmt.Sprintf("10.0.%d.%d", w.N%7, w.N%250)
	texts := []string{"connection to %s refused", "%s answered 503 service unavailable", "lookup of %s timed out", "certificate of %s has expired", "%s closed the stream in mid-message"}
	return workers.WithCode(workers.Permanent(fmt.Errorf(texts[w.Fail%len(texts)]+" (step %d)", host, w.Fail)), fmt.Sprintf("step_%d", w.Fail))
}

// ticked is the i-th item of a round of drive, and the n-th of all.
func ticked(i, n int) streamwright.Item {
	it := item(n)
	w := it.Params.(work)
	if w.N, w.Fail = i, 0; n%50 == 0 {
		w.Fail = 1 + n/50%causes
	}
	it.Type, it.Params, it.Delay, it.DedupKey = "tick", w, 0, ""
	return it
}
