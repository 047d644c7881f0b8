package dispatcher

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// A header that is used again says of an item what a fresh one says.
func TestRunHeaderIsUsedAgain(t *testing.T) {
	var again runHeader
	items := []events.Item{
		{ID: events.ID{1}, Type: "email", Timeout: time.Minute, Labels: map[string]string{"a": "b"}, Attempt: 2},
		{ID: events.ID{2}, Type: "resize", Timeout: time.Second},
		{ID: events.ID{3}, Type: "email"},
	}
	for i, trace := range []string{"", "t1", "", "t2"} {
		for j := range items {
			lease, token := time.Duration(j%2)*time.Second, events.NewToken(1, uint64(i*10+j))
			got := again.fill(&items[j], token, lease, trace)
			want := new(runHeader).fill(&items[j], token, lease, trace)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("have %v, want %v", got, want)
			}
		}
	}
	want := nats.Header{
		"Work-Id": {items[2].ID.String()}, "Work-Type": {"email"}, "Work-Attempt": {"1"}, "Work-Token": {events.NewToken(1, 7).String()},
		"Work-Lease": {"30s"}, "Work-Deadline": {"0s"}, "traceparent": {"t"},
	}
	if got := again.fill(&items[2], events.NewToken(1, 7), 30*time.Second, "t"); !reflect.DeepEqual(got, want) {
		t.Errorf("have %v, want %v", got, want)
	}
}
