package nodeclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

const folder = "../../clients/node"

// installTimeout bounds npm ci, which waits for the network where there is none.
const installTimeout = 2 * time.Minute

// npm runs npm in the package's folder.
func npm(ctx context.Context, path string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// installed skips the test unless the packages that clients/node is made of are
// there or can be had, and returns npm.
func installed(t *testing.T) string {
	t.Helper()
	need.Program(t, "node", "nodejs")
	path := need.Program(t, "npm")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil {
		return path
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	if out, err := npm(ctx, path, nil, "ci"); err != nil {
		need.Missing(t, "npm ci in clients/node does not get the packages it needs: %v\n%s", err, out)
	}
	return path
}

// build builds the package, once for all tests.
var build = sync.OnceValue(func() error {
	if out, err := npm(context.Background(), "npm", nil, "run", "build"); err != nil {
		return fmt.Errorf("npm run build: %w\n%s", err, out)
	}
	return nil
})

// built returns node once the package is built.
func built(t *testing.T) string {
	t.Helper()
	installed(t)
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return need.Program(t, "node", "nodejs")
}

// The Node package's own tests pass: its types, which npm test checks first, and its
// client and worker against the engine of this source tree, which is secured where
// [logins.Env] asks for it.
func TestNodePackage(t *testing.T) {
	need.Seconds(t)
	path := installed(t)
	engine := filepath.Join(t.TempDir(), "engine")
	if out, err := exec.Command("go", "build", "-o", engine, "github.com/streamwright/streamwright/cmd/engine").CombinedOutput(); err != nil {
		t.Fatalf("build the engine: %v\n%s", err, out)
	}
	env := []string{"STREAMWRIGHT_ENGINE=" + engine}
	if l := logins.Of(t); l != nil {
		env = append(env, "STREAMWRIGHT_TEST_TOML="+l.TOML(), "NODE_EXTRA_CA_CERTS="+l.Settings(logins.All).CA)
		env = append(env, l.Environ(logins.All)...)
	}
	out, err := npm(t.Context(), path, env, "test")
	if err != nil {
		t.Fatalf("npm test: %v\n%s", err, out)
	}
	if !strings.Contains(out, "# fail 0") || strings.Contains(out, "# pass 0\n") || !strings.Contains(out, "# skipped 0") {
		t.Errorf("npm test did not run all of its tests:\n%s", out)
	}
}

// The lock file names no host: which registry is used is for who installs to
// say. Every package has its hash.
func TestLockFileNamesNoHost(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte(`"resolved"`)) {
		t.Error("package-lock.json says where packages were resolved: run npm install with clients/node/.npmrc in place")
	}
	var lock struct {
		Packages map[string]struct {
			Integrity string `json:"integrity"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if name != "" && p.Integrity == "" {
			t.Errorf("package-lock.json has no hash of %s", name)
		}
	}
}

// The lock file has the engines of package.json: an npm that reads the one installs as for the other.
func TestLockFileHasTheEngines(t *testing.T) {
	type described struct {
		Engines map[string]string `json:"engines"`
	}
	var of described
	var lock struct {
		Packages map[string]described `json:"packages"`
	}
	for name, into := range map[string]any{"package.json": &of, "package-lock.json": &lock} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	if locked := lock.Packages[""].Engines; of.Engines["node"] == "" || !maps.Equal(of.Engines, locked) {
		t.Errorf("package.json has the engines %v, package-lock.json %v: run npm install", of.Engines, locked)
	}
}
