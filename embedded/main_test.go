package embedded

import (
	"os"
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/internal/need"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		hold(dir)
	}
	leaks.Check(m)
}

// slow skips a test that takes seconds, with -short.
func slow(t testing.TB) { t.Helper(); need.Seconds(t) }
