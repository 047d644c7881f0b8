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

// noRace skips a simulation under the race detector.
func noRace(t testing.TB) { t.Helper(); needs.NoRace(t, "a simulation has one goroutine") }
