package streamwright_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
)

// The zero value of a field leaves it to the type; Lowest and NoWindow say zero.
func TestSubmissionOfAnItem(t *testing.T) {
	for name, tc := range map[string]struct {
		item streamwright.Item
		want string
	}{
		"nothing": {streamwright.Item{}, `{"type":"email"}`},
		"lowest":  {streamwright.Item{Priority: streamwright.Lowest, DedupWindow: streamwright.NoWindow}, `{"type":"email","priority":0,"dedup_window_ms":0}`},
		"set": {
			streamwright.Item{Priority: 9, DedupWindow: time.Hour, Delay: 1, Timeout: 1500 * time.Microsecond, EstimatedDuration: time.Minute},
			`{"type":"email","priority":9,"delay_ms":1,"timeout_ms":2,"dedup_window_ms":3600000,"estimated_duration_ms":60000}`,
		},
	} {
		tc.item.Type = "email"
		s, err := tc.item.Submission()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got, want map[string]any
		doc, _ := json.Marshal(s)
		if json.Unmarshal(doc, &got) != nil || json.Unmarshal([]byte(tc.want), &want) != nil {
			t.Fatalf("%s: %s", name, doc)
		}
		if delete(got, "params"); !equal(got, want) {
			t.Errorf("%s: got %s, want %s", name, doc, tc.want)
		}
	}
	for _, item := range []streamwright.Item{{DedupWindow: -time.Second}, {Delay: -1}, {Timeout: -1}, {EstimatedDuration: -1}} {
		if _, err := item.Submission(); streamwright.CodeOf(err) != streamwright.CodeBadTime {
			t.Errorf("%+v: got %v", item, err)
		}
	}
}

func equal(a, b map[string]any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
