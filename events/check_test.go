package events

import (
	"testing"
)

func TestDepth(t *testing.T) {
	for doc, want := range map[string]int{`1`: 0, `[]`: 1, `{"a":[{}]}`: 3, `"[[["`: 0, `["\"[[", []]`: 2, `"\\"`: 0, `[[],[]]`: 2, `"`: 0, `"\`: 0} {
		if got := JSONDepth([]byte(doc)); got != want {
			t.Errorf("depth of %s is %d, want %d", doc, got, want)
		}
	}
}
