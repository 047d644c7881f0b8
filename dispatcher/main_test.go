package dispatcher

import (
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
	needs "github.com/streamwright/streamwright/internal/need"
)

// No goroutine outlives an engine, nor the server that it ran on.
func TestMain(m *testing.M) { leaks.Check(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); needs.Seconds(t) }
