package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const version = "9.8.7"

// release is a release for this platform, built once.
var release struct {
	once   sync.Once
	dir    string
	engine string
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if release.dir != "" {
		_ = os.RemoveAll(release.dir)
	}
	os.Exit(code)
}

// released unpacks the release for this platform and returns its engine.
func released(t *testing.T) string {
	t.Helper()
	release.once.Do(func() {
		if release.dir, release.err = os.MkdirTemp("", "streamwright-release-"); release.err != nil {
			return
		}
		platform := runtime.GOOS + "/" + runtime.GOARCH
		name := fmt.Sprintf("streamwright-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
		for _, args := range [][]string{
			{"../release.sh", version, release.dir, platform},
			{"tar", "-xzf", filepath.Join(release.dir, name+".tar.gz"), "-C", release.dir},
		} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				release.err = fmt.Errorf("%v: %w\n%s", args, err, out)
				return
			}
		}
		release.engine = filepath.Join(release.dir, name, "streamwright")
	})
	if release.err != nil {
		t.Fatal(release.err)
	}
	return release.engine
}

// A release has the version stamped in, its checksum holds, and its programs
// run where there is nothing else, as on an empty image.
func TestRelease(t *testing.T) {
	engine := released(t)
	sums := exec.Command("sha256sum", "-c", "streamwright-"+version+"-SHA256SUMS")
	sums.Dir = release.dir
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(engine, "--version").Output(); err != nil || !strings.Contains(string(out), version) {
		t.Errorf("%s %v", out, err)
	}
	if os.Geteuid() != 0 {
		t.Log("not root: the engine was not run in an empty root")
		return
	}
	root := t.TempDir()
	if err := os.Link(engine, filepath.Join(root, "streamwright")); err != nil {
		if out, err := exec.Command("cp", engine, root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Join(root, "tmp"), filepath.Join(root, "data")} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	demo := exec.Command("/streamwright", "demo", "/data", "--json")
	demo.Dir = "/"
	demo.Env = []string{}
	demo.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if err := os.WriteFile(filepath.Join(root, "data", "a.txt"), []byte("a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := demo.CombinedOutput(); err != nil {
		t.Errorf("the demo in an empty root: %v\n%s", err, out)
	}
}
