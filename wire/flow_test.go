package wire_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestTermsGoThroughHeaders(t *testing.T) {
	zero, hour := events.Duration{}, events.DurationOf(time.Hour)
	for _, terms := range []wire.SubmitOptions{
		{},
		{After: []string{anID, anID}, AfterPolicy: events.AfterRun},
		{DedupPolicy: events.DedupSupersede, DedupWindow: &hour},
		{DedupWindow: &zero}, // none, whatever the type says
		{EstimatedDuration: events.Millis(90_000)},
		{ExpiresAt: time.Date(2030, 1, 31, 8, 0, 0, 123e6, time.UTC)},
	} {
		in := wire.Submit{Type: "email", Params: json.RawMessage("1"), SubmitOptions: terms}
		header, err := in.Headers()
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.ParseSubmission("work.submit.email", header, []byte("1"), wire.Default)
		if err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, in)
		}
	}
	got, err := wire.ParseSubmission("work.submit.email", map[string][]string{"Work-After": {"a, b", "c"}}, nil, wire.Default)
	if err != nil || !slices.Equal(got.After, []string{"a", "b", "c"}) {
		t.Errorf("got %v, %v", got.After, err)
	}
	for name, code := range map[string]events.Code{"Work-Dedup-Window": events.CodeBadTime, "Work-Expires-At": events.CodeBadTime} {
		_, err := wire.ParseSubmission("work.submit.email", map[string][]string{name: {"soon"}}, nil, wire.Default)
		if events.CodeOf(err) != code || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestItemShowsItsFlow(t *testing.T) {
	id := freshID(time.Now())
	it := &events.Item{ID: id, Type: "t", State: events.StateWaiting, HasCheckpoint: true, LeasesLost: 2, Spared: 1, Group: "acme",
		DedupWindow: time.Minute, Progress: events.Progress{Percent: 30, Message: "on it", At: time.Now()},
		Relations: &events.Relations{Parent: id, Waits: slices.Repeat([]events.ID{id}, wire.MaxShownWaits+5), Awaited: 3, By: id,
			Spawns: 2, Children: []events.ID{id, id}, Live: 1, Failed: 1, Continues: true, Continuation: "bind"}}
	got := wire.FromItem(it, nil, nil, nil)
	if got.Parent != id.String() || got.WaitsLeft != 105 || len(got.Waits) != 100 || got.Awaited != 3 || got.By != id.String() ||
		*got.Children != (wire.ChildCounts{Total: 2, Live: 1, Failed: 1, Spawns: 2}) || !got.Continues || got.Continuation != "bind" ||
		got.Progress.Percent != 30 || !got.HasCheckpoint || got.LeasesLost != 2 || got.AttemptsSpared != 1 || got.DedupWindow != events.Millis(60_000) || got.Group != "acme" {
		t.Errorf("got %+v", got.ItemFlow)
	}
	plain, err := json.Marshal(wire.FromItem(&events.Item{ID: id, Type: "t", State: events.StateQueued}, nil, nil, nil))
	if err != nil || strings.Contains(string(plain), "waits") || strings.Contains(string(plain), "progress") {
		t.Errorf("a plain item shows %s, %v", plain, err)
	}
}
