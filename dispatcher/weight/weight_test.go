package weight

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

func TestCommands(t *testing.T) {
	doc := json.RawMessage(`"12345678"`) // 10 bytes
	kids := []core.Submit{{Params: doc}, {}}
	for name, c := range map[string]struct {
		cmds []core.Command
		want int
	}{
		"none":        {nil, 0},
		"no document": {[]core.Command{core.Cancel{}, core.Start{}}, 2 * Overhead},
		"submit":      {[]core.Command{core.Submit{Params: doc}}, Overhead + 10},
		"complete":    {[]core.Command{core.Complete{Result: doc}}, Overhead + 10},
		"checkpoint":  {[]core.Command{core.SaveCheckpoint{Checkpoint: doc}}, Overhead + 10},
		"schedule":    {[]core.Command{core.SetSchedule{Schedule: events.Schedule{Params: doc}}}, Overhead + 10},
		"spawn":       {[]core.Command{core.Spawn{Children: kids}}, 3*Overhead + 10},
		"spawn part":  {[]core.Command{core.SpawnPart{Children: kids}}, 3*Overhead + 10},
		"several":     {[]core.Command{core.Submit{Params: doc}, core.Cancel{}, core.Complete{Result: doc}}, 3*Overhead + 20},
	} {
		if got := Commands(c.cmds); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// A name counts with each of its values, as it is sent.
func TestHeaders(t *testing.T) {
	if got := Headers(map[string][]string{"abc": {"1", "22"}, "d": {""}, "none": nil}); got != 4+5+1 {
		t.Errorf("%d bytes, want 10", got)
	}
}
