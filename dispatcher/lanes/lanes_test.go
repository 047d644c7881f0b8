package lanes

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
)

// NextLane finds what a look at all sets of capabilities would.
func TestNextLane(t *testing.T) {
	name := rapid.StringMatching(`[ab0](-[ab0])?[ab]?`)
	rapid.Check(t, func(t *rapid.T) {
		o := Offer(slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(name, 0, 6).Draw(t, "offer")))))
		var all []string
		for set := 1; set < 1<<len(o); set++ {
			var caps []string
			for i, c := range o {
				if set>>i&1 == 1 {
					caps = append(caps, c)
				}
			}
			all = append(all, events.LaneOf(caps))
		}
		slices.Sort(all)
		from := rapid.StringMatching(`[ab0_-]{0,6}`).Draw(t, "from")
		want := ""
		if i, _ := slices.BinarySearch(all, from); i < len(all) {
			want = all[i]
		}
		if got := o.NextLane(from); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
