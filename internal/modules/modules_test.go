package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The module outbox is not among ./... of this one, since it is a module of its
// own; its tests are part of ours all the same.
func TestOutbox(t *testing.T) {
	cmd := exec.Command("go", "test", "-v", "./...")
	cmd.Dir = filepath.Join("..", "..", "outbox")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
