package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The modules outbox and deploy/check are not among ./... of this one; their
// tests are part of ours all the same.
func TestModules(t *testing.T) {
	for _, folder := range []string{"outbox", "deploy/check"} {
		t.Run(folder, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-v", "./...")
			cmd.Dir = filepath.Join("..", "..", filepath.FromSlash(folder))
			// Flags such as -modfile are about the main module.
			cmd.Env = append(os.Environ(), "GOFLAGS="+trimpath())
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// trimpath is that flag, if it is set for the tests of the main module: a module
// compiled like that one finds what they share in the build cache.
func trimpath() string {
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		if flag == "-trimpath" {
			return flag
		}
	}
	return ""
}
