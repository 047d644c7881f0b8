package embedded

import (
	"testing"

	"github.com/streamwright/streamwright/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Check(m) }
