package wire_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A priority is a number or a word in JSON, as in headers and on the command
// line.
func TestPriorityInJSON(t *testing.T) {
	for text, want := range map[string]int{`0`: 0, `9`: 9, `"high"`: 8, `"Medium"`: 5, `"low"`: 2, `"7"`: 7} {
		var s wire.Submit
		if err := json.Unmarshal([]byte(`{"type":"email","priority":`+text+`}`), &s); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c, err := s.Command(events.ID{1}, 1000)
		if err != nil || c.Priority == nil || int(*c.Priority) != want {
			t.Errorf("%s is %v, %v", text, c.Priority, err)
		}
		if out, err := json.Marshal(s.Priority); err != nil || string(out) != string(rune('0'+want)) {
			t.Errorf("%s is written as %s, %v", text, out, err)
		}
	}
	for _, text := range []string{`"urgent"`, `""`, `1.5`, `true`, `[1]`, `10`, `-1`, `99999999999999999999`} {
		var s wire.Submit
		err := json.Unmarshal([]byte(`{"type":"email","priority":`+text+`}`), &s)
		if err == nil {
			_, err = s.Command(events.ID{1}, 1000)
		}
		var refused *events.Error
		if !errors.As(err, &refused) || refused.Code != events.CodeBadPriority {
			t.Errorf("%s: %v", text, err)
		}
	}
	var s wire.Submit
	if err := json.Unmarshal([]byte(`{"priority":null}`), &s); err != nil || s.Priority != nil {
		t.Errorf("null: %v, %v", s.Priority, err)
	}
}
