package wire

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

func TestMeasure(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	due := func(s float64) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"available_at":%q}`, at(s).Format(time.RFC3339Nano)))
	}
	evs := []HistoryEvent{
		{Kind: events.KindCreated, At: at(0)},
		{Kind: events.KindQueued, At: at(0), Data: due(10)}, // a delay
		{Kind: events.KindRescheduled, At: at(4), Data: due(6)},
		{Kind: events.KindClaimed, At: at(9)}, // 6 s not due, 3 s due
		{Kind: events.KindRunning, At: at(9.5)},
		{Kind: events.KindFailed, At: at(12)},
		{Kind: events.KindQueued, At: at(12), Data: due(13)}, // a backoff
		{Kind: events.KindClaimed, At: at(15)},
		{Kind: events.KindRunning, At: at(15)},
		{Kind: events.KindProgressed, At: at(16)},
		{Kind: events.KindFailed, At: at(18)},
		{Kind: events.KindDead, At: at(18)},
		{Kind: events.KindReplayed, At: at(100)}, // what it was dead is nobody's wait
		{Kind: events.KindClaimed, At: at(101)},
		{Kind: events.KindRunning, At: at(101)},
		{Kind: events.KindCompleted, At: at(103)},
	}
	sum := Measure(evs)
	if want := (StateDurations{Waited: events.Millis(3000 + 2000 + 1000), BackedOff: events.Millis(6000 + 1000), Starting: events.Millis(500), Ran: events.Millis(2500 + 3000 + 2000)}); sum != want {
		t.Errorf("in all %+v, want %+v", sum, want)
	}
	for i, want := range map[int]StateDurations{3: {Waited: events.Millis(3000), BackedOff: events.Millis(6000)}, 4: {Starting: events.Millis(500)}, 5: {Ran: events.Millis(2500)}, 7: {Waited: events.Millis(2000), BackedOff: events.Millis(1000)}, 10: {Ran: events.Millis(3000)}, 13: {Waited: events.Millis(1000)}, 15: {Ran: events.Millis(2000)}} {
		if evs[i].StateDurations == nil || *evs[i].StateDurations != want {
			t.Errorf("%s at %s: %+v, want %+v", evs[i].Kind, evs[i].At, evs[i].StateDurations, want)
		}
	}
	for _, i := range []int{0, 1, 2, 9, 12} {
		if evs[i].StateDurations != nil {
			t.Errorf("%s at %s: %+v", evs[i].Kind, evs[i].At, evs[i].StateDurations)
		}
	}
	if data, err := json.Marshal(evs[9]); err != nil || string(data) != `{"seq":0,"kind":"progressed","at":"2030-01-02T03:04:21Z"}` {
		t.Errorf("%s, %v", data, err)
	}
}
