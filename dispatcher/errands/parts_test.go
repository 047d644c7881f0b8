package errands

import (
	"context"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// A part that is larger than a decision may be is made in smaller ones. If one child alone is,
// the children can't be had.
func TestPartsThatAreTooLarge(t *testing.T) {
	for _, most := range []int{1, 7, 0} {
		made, lost := 0, ""
		r := New(t.Context(), Config{Decide: func(_ context.Context, cmds []core.Command) (out []Outcome, _ error) {
			for _, cmd := range cmds {
				c := cmd.(core.SpawnPart)
				var err error
				switch {
				case c.Lost != "":
					lost = c.Lost
				case c.From != made:
					t.Errorf("a part behind %d, with %d made", c.From, made)
				case len(c.Children) > most:
					err = events.Refuse(events.CodeTooLarge, "it is too large")
				default:
					made += len(c.Children)
				}
				if out = append(out, Outcome{Err: err}); err != nil {
					break
				}
			}
			return out, nil
		}})
		it := &events.Item{Relations: &events.Relations{Spawns: 1, Declared: 100}}
		over, err := r.makeSome(t.Context(), it, make([]core.Submit, 100), 0)
		switch {
		case err != nil:
			t.Errorf("at most %d: %v", most, err)
		case most == 0 && (!over || lost == "" || made != 0):
			t.Errorf("children that can't be made: %d are, lost %q, over %v", made, lost, over)
		case most > 0 && (over || lost != "" || made != 100):
			t.Errorf("at most %d: %d are made, lost %q, over %v", most, made, lost, over)
		}
	}
}
