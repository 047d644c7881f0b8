package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

// binary is the engine's program.
var binary string

// natsConfig names, in the environment, the configuration of the NATS server
// that the test program is to be.
const natsConfig = "CLUSTERTEST_NATS"

func TestMain(m *testing.M) {
	if file := os.Getenv(natsConfig); file != "" {
		serveNATS(file)
		return
	}
	if os.Getenv(inNamespace) == "" && os.Getenv("CLUSTERTEST_NET") != "proxy" {
		if code, ok := enterNamespace(); ok {
			os.Exit(code)
		}
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clustertest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary = os.Getenv("CLUSTERTEST_ENGINE"); binary != "" {
		return m.Run()
	}
	binary = filepath.Join(dir, "engine")
	build := exec.Command("go", "build", "-o", binary, "./cmd/engine")
	build.Dir = "../.." // the main module, which has what the program needs
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the engine: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// serveNATS is a NATS server as nats-server itself runs it.
func serveNATS(file string) {
	opts, err := natsserver.ProcessConfigFile(file)
	if err == nil {
		var s *natsserver.Server
		if s, err = natsserver.NewServer(opts); err == nil {
			s.ConfigureLogger()
			if err = natsserver.Run(s); err == nil {
				s.WaitForShutdown()
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// node is a process that is started again after each fault.
type node struct {
	t      *testing.T
	name   string // also its place
	engine bool   // it decides or stands by
	nats   bool   // it is a NATS server, or has one

	dir  string    // its data
	disk need.Disk // if the cluster's nodes have small ones
	log  string    // the file of what it says
	argv func() *exec.Cmd

	cmd    *exec.Cmd
	done   chan struct{} // closed when the process has ended
	paused bool
	up     bool // it is to run
}

func (n *node) start() {
	n.t.Helper()
	if n.alive() {
		return
	}
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer out.Close()
	fmt.Fprintf(out, "--- %s: started\n", time.Now().UTC().Format("15:04:05.000"))
	n.cmd, n.done, n.up = n.argv(), make(chan struct{}), true
	n.cmd.Stdout, n.cmd.Stderr = out, out
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait()
	}(n.cmd, n.done)
}

func (n *node) alive() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) signal(sig syscall.Signal) {
	if n.alive() {
		_ = n.cmd.Process.Signal(sig)
	}
}

// kill is kill -9.
func (n *node) kill() {
	n.up = false
	if n.alive() {
		n.signal(syscall.SIGKILL)
		<-n.done
	}
	n.paused = false
}

// stop asks the process to end, and waits until it has.
func (n *node) stop() {
	n.t.Helper()
	n.up = false
	if !n.alive() {
		return
	}
	n.signal(syscall.SIGTERM)
	select {
	case <-n.done:
	case <-time.After(time.Minute):
		n.t.Errorf("%s does not stop within a minute of SIGTERM", n.name)
		n.kill()
		return
	}
	if code := n.cmd.ProcessState.ExitCode(); n.engine && code != 0 {
		n.t.Errorf("%s stopped with exit code %d", n.name, code)
	}
}

func (n *node) pause() {
	n.signal(syscall.SIGSTOP)
	n.paused = true
}

func (n *node) resume() {
	n.signal(syscall.SIGCONT)
	n.paused = false
}

// disks are those of the nodes.
type disks struct {
	bytes  int64 // of each; 0: all are on the test's
	synced bool  // every write is synced: durability = "always"
}

// cluster is nodes on a network.
type cluster struct {
	t       *testing.T
	net     network
	dir     string
	nodes   []*node
	probe   *http.Client
	servers []string // the places with a NATS server
	own     bool     // the engines have servers of their own
	logins  *logins.Logins
	disks
}

func newCluster(t *testing.T, d disks) *cluster {
	c := &cluster{t: t, net: newNetwork(t), dir: folder(t), disks: d, probe: &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.kill()
		}
		for _, n := range c.nodes {
			said, _ := os.ReadFile(n.log)
			c.logins.Check(t, string(said))
		}
		if t.Failed() {
			c.lastWords()
		}
	})
	return c
}

// lastWords logs the end of what each node has said.
func (c *cluster) lastWords() {
	for _, n := range c.nodes {
		b, _ := os.ReadFile(n.log)
		c.t.Logf("%s said last:\n%s", n.name, b[max(0, len(b)-5000):])
	}
}

func (c *cluster) add(n *node) *node {
	c.t.Helper()
	n.t, n.dir, n.log = c.t, filepath.Join(c.dir, n.name), filepath.Join(c.dir, n.name+".log")
	if c.bytes > 0 {
		n.disk = need.SmallDisk(c.t, c.bytes)
		n.dir = filepath.Join(n.disk.Dir, "data")
	}
	c.net.add(n.name)
	c.nodes = append(c.nodes, n)
	return n
}

// write writes a file of a node, and returns its path.
func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// settings are those of every engine: short leases, and attempts that faults
// don't use up.
const settings = `
[server]
durability = "interval"
[http]
allow_open = true
[types.raw]
lease = "3s"
max_attempts = 1000
backoff = {initial = "10ms", max = "100ms"}
[types.lib]
lease = "3s"
max_attempts = 1000
backoff = {initial = "10ms", max = "100ms"}
`

// onSmallDisks are the settings of an engine whose data is on a disk of smallDisk bytes.
const onSmallDisks = `
[limits]
min_free = "32MiB"
max_store = "1GiB"
log_max_size = "16MiB"
`

const smallDisk = 192 << 20

// settings returns those of the cluster's engines.
func (c *cluster) settings() string {
	text := settings + "[nats]\nallow_open = true\n"
	if c.logins != nil {
		text = settings + c.logins.TOML()
	}
	if c.synced {
		text = strings.Replace(text, `"interval"`, `"always"`, 1)
	}
	if c.bytes > 0 {
		text += onSmallDisks
	}
	return text
}

// newPlain starts three NATS servers that form a cluster, and two engines on it.
func newPlain(t *testing.T, d disks) *cluster {
	logins.Open(t, "its NATS servers are not the engines'")
	c := newCluster(t, d)
	c.servers = []string{"n1", "n2", "n3"}
	for _, name := range c.servers {
		c.add(&node{name: name, nats: true})
	}
	for _, name := range []string{"e1", "e2"} {
		c.add(&node{name: name, engine: true})
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.nodes {
		if n.engine {
			toml := c.write(n.name+".toml", c.settings())
			n.argv = func() *exec.Cmd {
				return c.net.command(n.name, binary, "serve", "--config", toml, "--dir", n.dir,
					"--nats-url", c.urls(n.name), "--http", c.net.listen(n.name, httpPort))
			}
			continue
		}
		conf := c.write(n.name+".conf", c.natsServer(n))
		n.argv = func() *exec.Cmd {
			cmd := c.net.command(n.name, self)
			cmd.Env = append(os.Environ(), natsConfig+"="+conf)
			return cmd
		}
	}
	for _, n := range c.nodes {
		n.start()
		if n.name == "n3" {
			c.formed()
		}
	}
	return c
}

// formed waits until JetStream has a leader.
func (c *cluster) formed() {
	c.t.Helper()
	if c.logins != nil { // no user may ask JetStream itself
		c.owner()
		return
	}
	nc := c.connect()
	defer nc.Close()
	need.Eventually(c.t, "JetStream answers", func() bool {
		msg, err := nc.Request("$JS.API.INFO", nil, time.Second)
		return err == nil && !strings.Contains(string(msg.Data), `"error"`)
	})
}

func (c *cluster) natsServer(n *node) string {
	var routes []string
	for _, other := range c.servers {
		if other != n.name {
			routes = append(routes, "nats-route://"+c.net.dial(n.name, other, routePort))
		}
	}
	advertise, sync := "", "1s"
	if c.synced {
		sync = "always"
	}
	if c.net.local() {
		// Routes are those through the proxies alone: what others tell of this
		// server leads nowhere.
		advertise = "advertise: \"127.0.0.1:1\", no_advertise: true"
	}
	return fmt.Sprintf(`
server_name: %[1]s
listen: "%[2]s"
max_payload: 8MB
jetstream { store_dir: "%[3]s", max_file_store: 10GB, sync_interval: "%[7]s" }
cluster { name: test, listen: "%[4]s", routes: [%[5]s], %[6]s }
`, n.name, c.net.listen(n.name, clientPort), n.dir, c.net.listen(n.name, routePort), `"`+strings.Join(routes, `", "`)+`"`, advertise, sync)
}

// urls returns the addresses of the NATS servers, as a place reaches them.
func (c *cluster) urls(from string) string {
	var urls []string
	for _, name := range c.servers {
		urls = append(urls, "nats://"+c.net.dial(from, name, clientPort))
	}
	return strings.Join(urls, ",")
}

// soon are options by which a connection that is dead is given up within two
// seconds, and another server tried.
func soon() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.PingInterval(500 * time.Millisecond), nats.MaxPingsOutstanding(2), nats.Timeout(time.Second), nats.IgnoreDiscoveredServers(),
		nats.ReconnectBufSize(-1), nats.FlusherTimeout(time.Second), nats.ReconnectOnFlusherError(),
	}
}

// options are those of the test's connections.
func (c *cluster) options() []nats.Option {
	c.t.Helper()
	if c.logins == nil {
		return soon()
	}
	return append(c.logins.Options(c.t, logins.All), soon()...)
}

// connect connects the test to any of the servers.
func (c *cluster) connect() (nc *nats.Conn) {
	c.t.Helper()
	need.Eventually(c.t, "a NATS server answers", func() bool {
		var err error
		nc, err = nats.Connect(c.urls(outside), c.options()...)
		return err == nil
	})
	return nc
}

// engines returns the nodes that are engines.
func (c *cluster) engines() (all []*node) {
	for _, n := range c.nodes {
		if n.engine {
			all = append(all, n)
		}
	}
	return all
}

// natsNodes returns the nodes that have a NATS server.
func (c *cluster) natsNodes() (all []*node) {
	for _, n := range c.nodes {
		if n.nats {
			all = append(all, n)
		}
	}
	return all
}

// health is what an engine says of itself.
type health struct {
	Status, Role string
}

func (c *cluster) health(n *node) (h health) {
	res, err := c.probe.Get("http://" + c.net.dial(outside, n.name, httpPort) + "/healthz")
	if err != nil {
		return h
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&h)
	return h
}

// owns reports whether an engine says that it owns the log.
func (h health) owns() bool { return h.Role == "owner" || h.Role == "" && h.Status == "ok" }

// owner waits for an engine that owns the log.
func (c *cluster) owner() (owner *node) {
	c.t.Helper()
	need.Eventually(c.t, "an engine owns the log", func() bool {
		for _, n := range c.engines() {
			if n.alive() && !n.paused && c.health(n).owns() {
				owner = n
				return true
			}
		}
		return false
	})
	return owner
}

// standby returns an engine that does not own the log.
func (c *cluster) standby() *node {
	c.t.Helper()
	owner := c.owner()
	for _, n := range c.engines() {
		if n != owner && n.alive() {
			return n
		}
	}
	c.t.Fatal("no engine stands by")
	return nil
}

// leader returns the node whose NATS server leads the event stream.
func (c *cluster) leader() (leader *node) {
	c.t.Helper()
	nc := c.connect()
	defer nc.Close()
	js := "$JS.API."
	if c.logins != nil { // users are in accounts of their own
		js = "$JS.work.API."
	}
	need.Eventually(c.t, "the event stream has a leader", func() bool {
		msg, err := nc.Request(js+"STREAM.INFO.WORK_EVENTS_0", nil, time.Second)
		if err != nil {
			return false
		}
		var info struct{ Cluster struct{ Leader string } }
		if json.Unmarshal(msg.Data, &info) != nil || info.Cluster.Leader == "" {
			return false
		}
		for _, n := range c.natsNodes() {
			if n.name == info.Cluster.Leader {
				leader = n
			}
		}
		return leader != nil
	})
	return leader
}

// stepDown asks the event stream's leader to let another server lead. One that has no
// replica can't.
func (c *cluster) stepDown(ctx context.Context) error {
	nc, err := nats.Connect(c.urls(outside), c.options()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	msg, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN.WORK_EVENTS_0", nil)
	if err != nil {
		return err
	}
	var reply struct {
		Error *struct{ Description string }
	}
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("step down: %s", reply.Error.Description)
	}
	return nil
}

// isolate cuts a place off from the places of a list, in both directions.
func (c *cluster) isolate(place string, from []string) {
	for _, other := range from {
		if other != place {
			c.net.cut(place, other)
			c.net.cut(other, place)
		}
	}
}

// places returns the names of all nodes.
func (c *cluster) places() (names []string) {
	for _, n := range c.nodes {
		names = append(names, n.name)
	}
	return names
}

// revive starts what has ended by itself again, as a supervisor would.
func (c *cluster) revive() {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.up && !n.alive() {
			c.t.Logf("%s: %s has ended by itself, with exit code %d: it is started again", time.Now().UTC().Format("15:04:05.000"), n.name, n.cmd.ProcessState.ExitCode())
			n.start()
		}
	}
}

// mend starts and continues everything again.
func (c *cluster) mend() {
	c.t.Helper()
	c.net.heal()
	for _, n := range c.nodes {
		if n.paused {
			n.resume()
		}
		n.start()
	}
}

// verifiable returns the NATS servers that lead to stores of their own: a server asks
// its own engine first. Where the engines have none, one of them is asked.
func (c *cluster) verifiable() []string {
	if c.own {
		return c.servers
	}
	return c.servers[:1]
}

// cli runs the engine's command line against one NATS server.
func (c *cluster) cli(server string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "--server", "nats://"+c.net.dial(outside, server, clientPort))...)
	cmd.Env = append(os.Environ(), c.logins.Environ(logins.All)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
