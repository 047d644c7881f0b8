package dispatcher_test

import (
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// No goroutine outlives an engine, nor the server that it ran on.
func TestMain(m *testing.M) { need.NoGoroutines(m) }
