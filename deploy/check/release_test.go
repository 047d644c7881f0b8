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

// unoptimized has the engine built without its profile, which would compile all that it needs
// once more.
const unoptimized = "PGO=off"

// release is a release for this platform, built once.
var release struct {
	once   sync.Once
	dir    string // with all that is below
	files  string // the release
	engine string // of its archive, unpacked
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if release.dir != "" {
		_ = os.RemoveAll(release.dir)
	}
	os.Exit(code)
}

// released makes the release for this platform, unpacks its archive and returns the engine of it.
func released(t *testing.T) string {
	t.Helper()
	program(t, "npm")
	release.once.Do(func() {
		if release.dir, release.err = os.MkdirTemp("", "streamwright-release-"); release.err != nil {
			return
		}
		release.files = filepath.Join(release.dir, "release")
		name := archive()
		for _, args := range [][]string{
			{"../release.sh", version, release.files, runtime.GOOS + "/" + runtime.GOARCH},
			{"tar", "-xzf", filepath.Join(release.files, name+".tar.gz"), "-C", release.dir},
		} {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), unoptimized)
			if out, err := cmd.CombinedOutput(); err != nil {
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

// archive is the name of this platform's archive, without its ending.
func archive() string {
	return fmt.Sprintf("streamwright-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH)
}

// A release that is built again, in another folder and with other settings of the machine, is the same,
// byte for byte.
func TestReleaseIsReproducible(t *testing.T) {
	t.Parallel()
	released(t)
	folder, out := t.TempDir(), t.TempDir()
	list, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("git ls-files: %v", err) // not a checkout
	}
	copying := exec.Command("cp", "--parents", "-t", folder)
	copying.Dir = "../.."
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join("../..", name)); err == nil {
			copying.Args = append(copying.Args, name)
		}
	}
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The modules of the Node client need not be fetched twice.
	modules, err := filepath.Abs("../../clients/node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(modules); err == nil {
		if err := os.Symlink(modules, filepath.Join(folder, "clients", "node", "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	again := exec.Command("sh", "-c", `umask 077; exec deploy/release.sh "$@"`, "sh", version, out, runtime.GOOS+"/"+runtime.GOARCH)
	again.Dir = folder
	again.Env = append(os.Environ(), "TZ=Asia/Tokyo", "LC_ALL=C", "GOFLAGS=-buildvcs=true", unoptimized)
	if said, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	sums := "streamwright-" + version + "-SHA256SUMS"
	first, err := os.ReadFile(filepath.Join(release.files, sums))
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(out, sums))
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Errorf("the first release has\n%s\nthe second\n%s", first, second)
	}
}

// A release has the version stamped in, its checksum holds, and its programs
// run where there is nothing else, as on an empty image.
func TestRelease(t *testing.T) {
	engine := released(t)
	sums := exec.Command("sha256sum", "-c", "streamwright-"+version+"-SHA256SUMS")
	sums.Dir = release.files
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
	healthy(t, root)
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

// healthy runs the image's command and its health check in an empty root, on other ports.
func healthy(t *testing.T, root string) {
	t.Helper()
	inRoot := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/streamwright", args...)
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	address := freeAddress(t) // 8484 may be taken on this machine
	if err := inRoot("health", "http://"+address).Run(); err == nil {
		t.Error("an engine that is not there is well")
	}
	engine := startNode(t, inRoot("serve", "--dir", "/data/engine", "--nats-listen", "127.0.0.1:0", "--http", address))
	engine.says(t, "engine ready")
	if out, err := inRoot("health", "http://"+address).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("the health check says %q, %v", out, err)
	}
	engine.stop()
	if err := engine.ends(); err != nil {
		t.Error(err)
	}
}
