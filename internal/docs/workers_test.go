package docs

import (
	"strings"
	"testing"
)

// What docs/guides/WORKERS.md shows of Go is compiled and run.
func TestWorkersPageShowsTheExamples(t *testing.T) {
	page := read(t, "docs/guides/WORKERS.md")
	blocks := quoted.FindAllStringSubmatch(page, -1)
	if n := strings.Count(page, "```go\n"); n != len(blocks) || n == 0 {
		t.Errorf("docs/guides/WORKERS.md has %d blocks of Go, %d of them say which example they are", n, len(blocks))
	}
	for _, b := range blocks {
		if want := source(t, b[1], b[2]); b[3] != want {
			t.Errorf("docs/guides/WORKERS.md shows another %s than %s, which has:\n%s", b[2], b[1], want)
		}
	}
}
