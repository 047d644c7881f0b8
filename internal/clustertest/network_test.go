package clustertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// outside is the place of the test itself: its clients and workers.
const outside = "outside"

// The ports that a place may listen on.
const (
	clientPort = 4222
	routePort  = 6222
	httpPort   = 8484
)

// network connects places, each of which has processes of its own.
type network interface {
	// add makes a place.
	add(place string)
	// listen returns the address for a process in a place to listen on.
	listen(place string, port int) string
	// dial returns the address by which a process in one place reaches a port of another.
	dial(from, to string, port int) string
	// command returns a command that runs in a place.
	command(place, name string, args ...string) *exec.Cmd
	// cut drops what one place sends to another, from now on.
	cut(from, to string)
	// slow bounds what a place sends to all others, in kbit/s, or delays it.
	slow(place string)
	// heal ends every cut and slow link.
	heal()
	// local reports whether all places share the loopback addresses.
	local() bool
}

// inNamespace is set in the environment of a test that runs in a namespace of
// its own.
const inNamespace = "CLUSTERTEST_IN_NAMESPACE"

// enterNamespace runs the test program once more, in a network namespace of its own,
// and returns its exit code; ok is false if that is not allowed here.
func enterNamespace() (code int, ok bool) {
	for _, program := range []string{"ip", "tc", "nsenter", "unshare", "sleep"} {
		if _, err := exec.LookPath(program); err != nil {
			return 0, false
		}
	}
	try := exec.Command("ip", "link", "add", "clustertest", "type", "bridge")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if try.Run() != nil {
		return 0, false
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		return 1, true
	}
	return max(cmd.ProcessState.ExitCode(), 0), true
}

// newNetwork returns namespaces, or proxies where they are not allowed.
func newNetwork(t *testing.T) network {
	if os.Getenv(inNamespace) == "" {
		return newProxies(t)
	}
	n := &namespaces{t: t, id: map[string]int{}, pid: map[string]int{}}
	n.ip("link", "add", "hub", "type", "bridge")
	t.Cleanup(func() { n.ip("link", "del", "hub") })
	n.ip("link", "set", "lo", "up")
	n.ip("addr", "add", n.address(outside)+"/24", "dev", "hub")
	n.ip("link", "set", "hub", "up")
	return n
}

// namespaces is a network of network namespaces on one bridge.
type namespaces struct {
	t    *testing.T
	id   map[string]int
	pid  map[string]int // of the process that keeps the namespace
	cuts [][2]string
	slew []string
}

func (n *namespaces) run(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (n *namespaces) ip(args ...string) {
	n.t.Helper()
	n.run("ip", args...)
}

// in runs a program in a place.
func (n *namespaces) in(place, name string, args ...string) {
	n.t.Helper()
	if place == outside {
		n.run(name, args...)
		return
	}
	n.run("nsenter", append([]string{"-t", strconv.Itoa(n.pid[place]), "-n", name}, args...)...)
}

func (n *namespaces) add(place string) {
	n.t.Helper()
	keeper := exec.Command("sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.id[place], n.pid[place] = len(n.id)+1, keeper.Process.Pid
	port := "hub-" + place
	n.ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(keeper.Process.Pid))
	n.t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", port).Run()
		_ = keeper.Process.Kill()
		_ = keeper.Wait()
	})
	n.ip("link", "set", port, "master", "hub", "up")
	n.in(place, "ip", "link", "set", "lo", "up")
	n.in(place, "ip", "addr", "add", n.address(place)+"/24", "dev", "eth0")
	n.in(place, "ip", "link", "set", "eth0", "up")
}

func (n *namespaces) address(place string) string {
	if place == outside {
		return "10.77.0.1"
	}
	return fmt.Sprintf("10.77.0.%d", 10+n.id[place])
}

func (n *namespaces) listen(place string, port int) string {
	return fmt.Sprintf("%s:%d", n.address(place), port)
}

func (n *namespaces) dial(_, to string, port int) string { return n.listen(to, port) }

func (n *namespaces) local() bool { return false }

func (n *namespaces) command(place, name string, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(n.pid[place]), "-n", name}, args...)...)
}

func (n *namespaces) device(place string) string {
	if place == outside {
		return "hub"
	}
	return "eth0"
}

// cut gives the one place a wrong hardware address of the other, so that its
// packets arrive nowhere and nothing is told of it.
func (n *namespaces) cut(from, to string) {
	n.t.Helper()
	n.in(from, "ip", "neigh", "replace", n.address(to), "lladdr", "02:00:00:00:77:77", "nud", "permanent", "dev", n.device(from))
	n.cuts = append(n.cuts, [2]string{from, to})
}

// slow lets a place send 256 kbit/s, with a queue of up to 300 ms.
func (n *namespaces) slow(place string) {
	n.t.Helper()
	n.in(place, "tc", "qdisc", "replace", "dev", n.device(place), "root", "tbf", "rate", "256kbit", "burst", "4kb", "latency", "300ms")
	n.slew = append(n.slew, place)
}

func (n *namespaces) heal() {
	n.t.Helper()
	for _, c := range n.cuts {
		n.in(c[0], "ip", "neigh", "flush", "to", n.address(c[1]), "nud", "permanent")
	}
	for _, place := range n.slew {
		n.in(place, "tc", "qdisc", "del", "dev", n.device(place), "root")
	}
	n.cuts, n.slew = nil, nil
}

// folder returns a folder for what a test leaves behind: in CLUSTERTEST_KEEP if
// that is set.
func folder(t *testing.T) string {
	keep := os.Getenv("CLUSTERTEST_KEEP")
	if keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_")+time.Now().Format("-150405.000"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Logf("folders and logs are in %s", dir)
	return dir
}
