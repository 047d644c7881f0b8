package embedded

import (
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

func TestMain(m *testing.M) { need.NoGoroutines(m) }
