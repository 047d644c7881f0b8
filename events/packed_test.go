package events

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events/quickjson/quicktest"
)

// brief is the JSON of which e.AppendPacked is the packed form.
func brief(t *testing.T, e Event) []byte {
	t.Helper()
	e.ID, e.Type = ID{}, ""
	data, err := e.AppendBrief(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestPackedIsTheJSON: an event and its JSON have the same packed form, which gives
// the JSON back, for events with usual and with unusual fields.
func TestPackedIsTheJSON(t *testing.T) {
	far := time.Date(9000, 1, 2, 3, 4, 5, 6, time.UTC)
	evs := codecEvents()
	at := evs[0].At
	for _, b := range []Body{
		&Queued{Reason: `"`, OrderAt: at}, &Queued{Reason: "ü"}, &Queued{}, &Queued{Reason: "retry", OrderAt: far, Jitter: Millis(3)}, &Queued{Reason: "x", Jitter: Millis(math.MinInt64), Timeout: Millis(math.MaxInt64)},
		&Queued{Reason: "retry", OrderAt: at.Add(-time.Hour), AvailableAt: at.Add(time.Nanosecond), Jitter: Millis(-1), Timeout: Millis(5)},
		&Claimed{}, &Claimed{Token: math.MaxUint64, Probe: true}, &Claimed{Token: 1, WorkerProbe: true, DeliveredAt: at}, &Claimed{Token: 2, StartBy: far}, &Claimed{Token: 2, Rates: []RateTaken{{}}},
		&Running{Deadline: far}, &Completed{Duration: Millis(math.MaxInt64)}, &Completed{Duration: Millis(7), Result: json.RawMessage(`{"a":1}`)},
	} {
		evs = append(evs, Event{Kind: b.Kind(), At: at, Attempt: 3, Worker: "w", Body: b}, Event{Kind: b.Kind(), At: far, Body: b}, Event{Kind: b.Kind(), At: at, By: `ann "é"`, Body: b})
	}
	for _, of := range []ID{{}, {1, 2, 3, 15: 9}, {255, 255, 255, 255, 255, 255}, {0x01, 0x94, 0x25, 0x4a, 0x10, 0x00}} {
		for _, e := range evs {
			want := brief(t, e)
			packed, err := e.AppendPacked([]byte("x"), of)
			if err != nil {
				t.Fatal(err)
			}
			if packed = packed[1:]; len(packed) > len(want) {
				t.Errorf("%s takes %d bytes", want, len(packed))
			}
			back, err := UnpackJSON([]byte("x"), of, packed)
			if err != nil || !bytes.Equal(back[1:], want) {
				t.Errorf("unpacked: %s, %v; want %s", back, err, want)
			}
			if again := AppendPackedJSON([]byte("x"), of, want)[1:]; !bytes.Equal(again, packed) {
				t.Errorf("%s: packed as %q, as an event %q", want, again, packed)
			}
		}
	}
}

// TestPackedUsualEvents holds the sizes of what a log has the most.
func TestPackedUsualEvents(t *testing.T) {
	at := time.Date(2025, 1, 2, 3, 4, 5, 678900000, time.UTC)
	of := ID{}
	binary.BigEndian.PutUint64(of[:8], uint64(at.UnixMilli())<<16)
	for _, c := range []struct {
		body Body
		most int
	}{
		{&Queued{Reason: "submitted", OrderAt: at}, 32}, {&Claimed{Token: 1 << 40, StartBy: at.Add(30 * time.Second)}, 30}, {&Running{Deadline: at.Add(5 * time.Minute)}, 24}, {&Completed{Duration: Millis(12)}, 18},
	} {
		e := Event{Kind: c.body.Kind(), At: at, Attempt: 1, Worker: "worker-1", Body: c.body}
		if packed, err := e.AppendPacked(nil, of); err != nil || len(packed) > c.most {
			t.Errorf("%s: %d bytes, %v", e.Kind, len(packed), err)
		}
	}
}

// TestMutatedJSONPacksAndUnpacks: whatever JSON a history holds, packing keeps it.
func TestMutatedJSONPacksAndUnpacks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	evs, of := codecEvents(), ID{1, 2, 3, 4, 5, 6, 7}
	for range 20_000 {
		data := brief(t, evs[r.IntN(len(evs))])
		for range r.IntN(3) {
			data = quicktest.Damage(r, data)
		}
		if len(data) == 0 || data[0] != '{' {
			continue
		}
		packed := AppendPackedJSON(nil, of, data)
		if back, err := UnpackJSON(nil, of, packed); err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%s became %s, %v", data, back, err)
		}
	}
}

// TestDamagedPackedEvents: damage is reported, and never a panic.
func TestDamagedPackedEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	evs, of := codecEvents(), ID{1, 2, 3, 4, 5, 6, 7}
	damaged := 0
	for range 20_000 {
		packed, err := evs[r.IntN(len(evs))].AppendPacked(nil, of)
		if err != nil {
			t.Fatal(err)
		}
		packed[r.IntN(len(packed))] = byte(r.Uint32())
		if _, err := UnpackJSON(nil, of, packed[:1+r.IntN(len(packed))]); err != nil {
			damaged++
		}
	}
	if damaged == 0 {
		t.Error("no damage was noticed")
	}
}
