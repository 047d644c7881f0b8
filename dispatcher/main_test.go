package dispatcher

import (
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
)

// No goroutine outlives an engine, nor the server that it ran on.
func TestMain(m *testing.M) { leaks.Check(m) }
