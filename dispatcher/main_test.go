package dispatcher

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives an engine, nor the server that it ran on.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
