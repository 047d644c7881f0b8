package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The modules outbox and deploy/check are not among ./... of this one; their
// tests are part of ours all the same.
func TestModules(t *testing.T) {
	for _, folder := range []string{"outbox", "deploy/check"} {
		t.Run(folder, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-v", "./...")
			cmd.Dir = filepath.Join("..", "..", filepath.FromSlash(folder))
			cmd.Env = append(os.Environ(), "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
