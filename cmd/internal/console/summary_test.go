package console

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright"
)

func TestSummary(t *testing.T) {
	for data, want := range map[string]string{
		`{"percent":40,"message":"page\u0007 4"}`:                                       `message=page\a 4 percent=40`,
		`{"spawn":1,"children":["A","B","C"],"continues":true,"continuation":"join"}`:   `children=[A B and 1 more] continues=true continuation=join`,
		`{"reason":"after","for":["A"],"left":1}`:                                       `reason=after for=[A] left=1`,
		`{"reason":"after","ended":"A","left":0}`:                                       `reason=after ended=A left=0`,
		`{"available_at":"2030-01-01T00:00:00Z","reason":"busy","duration_ms":3}`:       `reason=busy duration_ms=3 available_at=2030-01-01T00:00:00Z`,
		`{"checkpoint":{"page":7}}`:                                                     `checkpoint={"page":7}`,
		`{"reason":"upstream_dead","by":"A"}`:                                           `reason=upstream_dead by=A`,
		`{"priority":5,"parent":"P","after":["A"],"expires_at":"2030-01-01T00:00:00Z"}`: `priority=5 after=[A] parent=P expires_at=2030-01-01T00:00:00Z`,
		`{"children":[{"id":"A"}]}`:                                                     `children=1`,
		`[]`:                                                                            ``,
	} {
		if got := Summary(streamwright.Event{Data: json.RawMessage(data)}, Style{}); got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
	}
}
