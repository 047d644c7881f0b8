package dispatcher

import (
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Where types share a limit that is reached, why counts those of other types that
// go first, and only those.
func TestWhyCountsOtherTypes(t *testing.T) {
	slow(t)
	t.Parallel()
	for name, edit := range sharedLimits {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) {
				c.Defaults = events.DefaultTypeSettings()
				edit(1)(c)
			})
			h.register("w", 10, "a", "b")
			submit := func(typ events.Type, p events.Priority) events.ID {
				return h.do(core.Submit{Type: typ, NewID: h.eng.NewID(), Priority: &p, Params: []byte(`1`)}).Decision.ID
			}
			submit("a", 9)
			if a := h.begin(h.pull("a")); !a.OK {
				t.Fatalf("%+v", a.Error)
			}
			submit("b", 9)
			submit("b", 5)
			submit("a", 5)
			last := submit("a", 5)
			submit("b", 4)
			h.item(last) // it is projected, as are those before it
			why, err := h.eng.Why(h.ctx(), last)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(why.Reasons, func(o events.BlockReason) bool { return o.Code == events.WhyBehind })
			if i < 0 || why.Reasons[i].Ahead != 3 || !strings.HasPrefix(why.Reasons[i].Message, "3 items go first: 1 of its type, 2 of other types that share "+strings.Replace(name, "pool", "pool shared", 1)) {
				t.Fatalf("%+v", why.Reasons)
			}
		})
	}
}
