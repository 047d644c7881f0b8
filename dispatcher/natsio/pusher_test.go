package natsio

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// Messages that wait to be deleted have one chore at a time, come in batches, each
// once, and are bounded.
func TestSpentMessages(t *testing.T) {
	var s spentMsgs
	for i := range maxSpent {
		chore, full := s.add(uint64(i + 1))
		if chore != (i == 0) || full {
			t.Fatalf("message %d: chore %v, full %v", i+1, chore, full)
		}
	}
	if chore, full := s.add(maxSpent + 1); chore || !full {
		t.Fatalf("one more: chore %v, full %v", chore, full)
	}
	s.notQueued()
	if chore, full := s.add(maxSpent + 2); !chore || !full {
		t.Fatalf("one more, without a chore: %v, full %v", chore, full)
	}
	n := uint64(0)
	for more := true; more; {
		var seqs []uint64
		seqs, more = s.next()
		if len(seqs) > spentBatch {
			t.Fatalf("%d at once", len(seqs))
		}
		for _, seq := range seqs {
			if n++; seq != n {
				t.Fatalf("message %d in place of %d", seq, n)
			}
		}
	}
	if n != maxSpent {
		t.Fatalf("%d of %d came", n, maxSpent)
	}
	if chore, full := s.add(1); !chore || full {
		t.Fatalf("the first of new ones: chore %v, full %v", chore, full)
	}
}

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
