package errands

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
)

// However the children of a spawn are cut, all of them come, in order, in parts
// that one decision may make; and whoever goes on behind any of the parts cuts
// what is left in the same way.
func TestCutPart(t *testing.T) {
	need.Seconds(t)
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 100, 9_000, maxPartBytes / 3, maxPartBytes, 2 * maxPartBytes}), 1, 450).Draw(t, "sizes")
		doc := json.RawMessage(strings.Repeat("x", 2*maxPartBytes))
		children := make([]core.Submit, len(sizes))
		for i, n := range sizes {
			children[i] = core.Submit{MaxAttempts: events.Attempt(i), Params: doc[:n]}
		}
		most := rapid.IntRange(1, events.SpawnPartSize).Draw(t, "most")
		for made := 0; made < len(children); {
			part := cutPart(children[made:], most)
			bytes := 0
			for i, c := range part {
				if int(c.MaxAttempts) != made+i {
					t.Fatalf("child %d comes as number %d", c.MaxAttempts, made+i)
				}
				bytes += len(c.Params)
			}
			if n := len(part); n == 0 || n > most || n > 1 && bytes > maxPartBytes {
				t.Fatalf("a part of %d children with %d bytes", n, bytes)
			}
			made += len(part)
		}
	})
}
