package dispatcher

import (
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/need"
)

// No goroutine outlives an engine, nor the server that it ran on.
func TestMain(m *testing.M) { leaks.Check(m) }

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }

// noRace skips a simulation under the race detector.
func noRace(t testing.TB) { t.Helper(); need.NoRace(t, "a simulation has one goroutine") }
