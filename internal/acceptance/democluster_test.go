package acceptance

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// The demo of a cluster completes each item once although two of its nodes are killed,
// proves it, and leaves nothing behind; interrupted, it leaves nothing either.
func TestDemoCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes, two of which are killed, take a while")
	}
	need.NoRace(t, "the engine is another process, which runs without it")
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	demo := begin(t, "", "demo", "--cluster", filepath.Join("..", "..", "docs"))
	select {
	case <-demo.done:
	case <-time.After(3 * time.Minute):
		t.Fatalf("it does not end:\n%s", demo.log)
	}
	ran{demo.cmd.ProcessState.ExitCode(), demo.log.String(), ""}.wants(t, 0, "the owner (SIGKILL)", "a standby (SIGKILL)", "is back, and stands by", "ended exactly once", "node n1", "node n2", "node n3")
	empty := func(when string) {
		t.Helper()
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("%s it leaves %v, %v", when, left, err)
		}
	}
	empty("at its end")

	demo = begin(t, "", "demo", "--cluster", filepath.Join("..", "..", "docs"))
	eventually(t, "the demo has begun", func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "*", "n3"))
		return err == nil && len(left) > 0
	})
	demo.signal(syscall.SIGINT)
	if code := demo.ended(); code != 1 {
		t.Errorf("interrupted, it exits with %d:\n%s", code, demo.log)
	}
	empty("interrupted,")
}
