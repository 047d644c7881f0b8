package modules

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// parts selects the tests of modules whose tests take minutes. CI runs them all, with a
// time limit of their own.
var parts = map[string]string{"internal/pagetest": "^TestAnItemIs", "internal/clustertest": "^TestModel$"}

// TestModules runs the tests of every module below the main one, or a part of them:
// ./... of the main module does not contain them. The module tools only pins versions.
func TestModules(t *testing.T) {
	need.Seconds(t)
	for _, folder := range modules(t) {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			args := []string{"test", "-v", "-timeout", "9m"} // before the test around it is ended, which would hide what they said
			if part := parts[folder]; part != "" {
				args = append(args, "-run", part)
			}
			cmd := exec.Command("go", append(args, "./...")...)
			cmd.Dir = filepath.Join(root, folder)
			// Flags such as -modfile are about the main module.
			cmd.Env = append(os.Environ(), "GOFLAGS="+compiledWith())
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Error(err)
			} else if !bytes.Contains(out, []byte("\n--- ")) {
				t.Error("no test was run")
			}
		})
	}
}

const root = "../.."

// modules returns the folders, relative to root, of the modules to test.
func modules(t *testing.T) (folders []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || d.Name() != "go.mod":
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if folder != "." && folder != "tools" {
			folders = append(folders, folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		t.Fatal("no other module was found")
	}
	return folders
}

// compiledWith returns the flags that say how the tests of the main module are compiled: a
// module compiled like that one finds what they share in the build cache.
func compiledWith() string {
	flags := strings.Fields(os.Getenv("GOFLAGS"))
	return strings.Join(slices.DeleteFunc(flags, func(flag string) bool {
		return flag != "-trimpath" && !strings.HasPrefix(flag, "-pgo=")
	}), " ")
}
