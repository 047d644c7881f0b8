package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

// Each worker that dies is told of once, one that unregisters is not.
func TestSilentWorkersAreToldOf(t *testing.T) {
	silent := 0
	r := newRegistry(time.Minute, func() {})
	r.silent = func() { silent++ }
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, id := range []string{"a", "b", "c"} {
		if _, _, err := r.put(wire.Register{Worker: id, Types: []string{"email"}, Slots: 1}, now); err != nil {
			t.Fatal(err)
		}
	}
	r.remove("c", "")
	for _, after := range []time.Duration{59 * time.Second, 61 * time.Second, 2 * time.Minute, time.Hour} {
		r.expire(now.Add(after))
		if want := map[bool]int{true: 2}[after > time.Minute]; silent != want {
			t.Errorf("after %v %d have been told of, want %d", after, silent, want)
		}
	}
}
