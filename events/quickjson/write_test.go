package quickjson

import (
	"encoding/json"
	"testing"
	"time"
)

// Writable goes by seconds, encoding/json by years.
func TestWritable(t *testing.T) {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	for _, at := range []time.Time{{}, first, first.Add(-1), last, last.Add(1), first.Add(-1 << 62), last.Add(1 << 62)} {
		if _, err := json.Marshal(at); Writable(at) != (err == nil) {
			t.Errorf("%s: %v, %v", at, Writable(at), err)
		}
		if at = at.In(time.FixedZone("x", -3600)); Writable(at) != Writable(at.UTC()) {
			t.Errorf("%s is another moment in UTC", at)
		}
	}
}
