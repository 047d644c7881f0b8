package pagetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// nodes are three engines, each a process, whose NATS servers form a cluster.
type nodes struct {
	t       testing.TB
	program string
	dir     string
	all     []*node
}

type node struct {
	name              string
	nats, http, route string
	cmd               *exec.Cmd // nil: it is not running
}

func (n *node) page() string { return "http://" + n.http + "/" }

// startNodes starts three nodes, and ends them with the test.
func startNodes(t testing.TB) *nodes {
	t.Helper()
	need.NoRace(t, "the engines are processes of their own, which run without it")
	dir := t.TempDir()
	c := &nodes{t: t, dir: dir, program: filepath.Join(dir, "engine")}
	build := exec.Command("go", "build", "-o", c.program, "./cmd/engine")
	build.Dir = "../.." // the main module, which has what the program needs
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the engine: %v\n%s", err, out)
	}
	for i := range 3 {
		c.all = append(c.all, &node{name: fmt.Sprintf("n%d", i+1), nats: need.Address(t).String(), http: need.Address(t).String(), route: need.Address(t).String()})
	}
	t.Cleanup(func() { c.kill(c.all...) })
	c.start(c.all...)
	return c
}

// start starts nodes that do not run.
func (c *nodes) start(which ...*node) {
	c.t.Helper()
	for _, n := range which {
		args := []string{"serve", "--dir", filepath.Join(c.dir, n.name), "--nats-listen", n.nats, "--http", n.http, "--durability", "interval", "--cluster", "prod", "--node", n.name, "--cluster-listen", n.route}
		for _, peer := range c.all {
			args = append(args, "--peer", peer.route)
		}
		log, err := os.OpenFile(filepath.Join(c.dir, n.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			c.t.Fatal(err)
		}
		cmd := exec.Command(c.program, args...)
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
		log.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		n.cmd = cmd
	}
}

// kill kills nodes at once, as a machine does that loses its power.
func (c *nodes) kill(which ...*node) {
	for _, n := range which {
		if n.cmd != nil {
			_ = n.cmd.Process.Kill() // it may have ended by itself, and says why in its log
		}
	}
	for _, n := range which {
		if n.cmd != nil {
			_ = n.cmd.Wait() // it was killed
			n.cmd = nil
		}
	}
}

// settled waits until one of the three owns the log and the others follow it, and returns
// them.
func (c *nodes) settled() (owner *node, standbys []*node) {
	c.t.Helper()
	need.Eventually(c.t, "an owner and two standbys", func() bool {
		owner, standbys = nil, nil
		for _, n := range c.all {
			var r streamwright.Nodes
			if readJSON(n.page()+"api/v1/nodes", &r) != nil || len(r.Warnings) > 0 || len(r.Nodes) != len(c.all) || len(r.Streams) == 0 {
				return false
			}
			if r.Owner == n.name {
				owner = n
			} else {
				standbys = append(standbys, n)
			}
		}
		return owner != nil && len(standbys) == len(c.all)-1
	})
	return owner, standbys
}

// readJSON reads a document of an engine.
func readJSON(address string, into any) error {
	res, err := http.Get(address)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// lastWords logs the end of what each node has said, if the test has failed.
func (c *nodes) lastWords() {
	for _, n := range c.all {
		if data, err := os.ReadFile(filepath.Join(c.dir, n.name+".log")); err == nil && c.t.Failed() {
			c.t.Logf("%s said last:\n%s", n.name, data[max(0, len(data)-3000):])
		}
	}
}

// row is the selector of a node's row.
func (n *node) row() string { return fmt.Sprintf(".panel-nodes [data-node=%s]", n.name) }

// The panel of the nodes follows what happens to them: from any node, on every device,
// without the page being loaded anew.
func TestTheNodesOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodes(t)
	t.Cleanup(c.lastWords)
	owner, standbys := c.settled()
	client, err := streamwright.Connect(t.Context(), "nats://"+standbys[0].nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	sub, err := client.Submit(t.Context(), itemOf("archive"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("on every device", func(t *testing.T) { nodesOnEveryDevice(t, c, owner) })

	t.Run("the owner is killed", func(t *testing.T) { ownerKilled(t, c, owner, standbys[0]) })
	t.Run("the standbys are killed", func(t *testing.T) { noQuorum(t, c) })
	t.Run("all but one are killed", func(t *testing.T) { cutOff(t, c, sub.ID) })
}

// ownerKilled kills the owner: a standby's page shows who has taken over, and what is
// missing. Then it starts the old owner again.
func ownerKilled(t *testing.T, c *nodes, owner, standby *node) {
	p := open(t, desktop, standby.page())
	p.see(".connection", "live")
	p.see(".panel-nodes", "Owned by "+owner.name)
	p.see(standby.row(), "this page")
	same := p.stays()

	c.kill(owner)
	p.see(".panel-nodes", "took over from "+owner.name+", which fell silent")
	p.see(owner.row(), "no answer")
	p.see(".panel-nodes .risks", "AT RISK: "+owner.name+" does not answer")
	p.until(`!document.querySelector('.banner').checkVisibility()`)
	p.see(".connection", "live")
	p.see(`[data-tile="queued"] .tile-value`, "1")
	p.shotOfNodes("cluster")

	c.start(owner)
	p.see(owner.row(), "standby")
	p.gone(".panel-nodes .risks", "AT RISK")
	same()
}

// noQuorum kills the standbys: the page of the owner that is left says that nothing is
// decided. Then it starts them again.
func noQuorum(t *testing.T, c *nodes) {
	owner, standbys := c.settled()
	p := open(t, desktop, owner.page())
	p.see(".connection", "live")
	p.see(".panel-nodes", "Owned by "+owner.name)
	c.kill(standbys...)
	p.see(".banner", "nothing is decided")
	p.see(".panel-nodes [data-stream=WORK_EVENTS_0]", "can’t be written")
	c.start(standbys...)
	p.until(`!document.querySelector('.banner').checkVisibility()`)
}

// leaveStandby opens the page of a standby and kills the other nodes. A node that took the
// log over just before that is not left as a standby: then it starts them and tries again.
func leaveStandby(t *testing.T, c *nodes) (p *tab, left *node, others []*node, same func()) {
	for range 5 {
		owner, standbys := c.settled()
		left, others = standbys[0], []*node{owner, standbys[1]}
		p = open(t, desktop, left.page())
		p.see(".connection", "live")
		p.see(".panel-nodes", "Owned by "+owner.name)
		same = p.stays()
		c.kill(others...)
		if !left.owns(t) {
			return p, left, others, same
		}
		t.Logf("%s has taken the log over: once more", left.name)
		p.do(chromedp.Navigate("about:blank")) // its node may be killed the next time
		c.start(others...)
	}
	t.Fatal("each time the node that was left had taken the log over")
	return p, left, others, same
}

// owns reports whether a node says that it owns the log.
func (n *node) owns(t testing.TB) bool {
	t.Helper()
	var r streamwright.Nodes
	if err := readJSON(n.page()+"api/v1/nodes", &r); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(r.Nodes, func(o wire.Node) bool { return o.Node == n.name && o.Role == wire.RoleOwner })
}

// cutOff kills all nodes but a standby, whose pages then say, on every screen, that they
// are old; and starts the others again.
func cutOff(t *testing.T, c *nodes, item string) {
	p, left, others, same := leaveStandby(t, c)
	p.see(".banner", left.name+" is cut off from the log: what you see is old.")
	p.see(".connection", "stale")
	p.see(".panel-nodes", "No node owns the log.")
	p.see(left.row(), "standby, cut off")
	p.see(".panel-nodes [data-stream]", "can’t be written")
	p.goes("w", "#/work")
	p.see(".banner", "is cut off from the log")
	p.until(fmt.Sprintf(`document.querySelector('.work-table').innerHTML.includes(%s)`, quote(item)))
	same()

	n := open(t, phone, left.page()) // one that was never live
	n.see(".banner", "is cut off from the log")
	n.see(left.row(), "standby, cut off")
	n.sound("phone")

	c.start(others...)
	p.gone(".banner", "cut off")
	p.see(".connection", "live")
	same()
}

func nodesOnEveryDevice(t *testing.T, c *nodes, owner *node) {
	for name, v := range map[string]view{"light": desktop, "dark": night, "phone": phone} {
		t.Run(name, func(t *testing.T) {
			p := open(t, v, owner.page())
			p.see(".panel-nodes h2", "Cluster prod")
			p.see(".panel-nodes", "Owned by "+owner.name)
			for _, n := range c.all {
				p.see(n.row(), n.http)
			}
			p.see(".panel-nodes [data-stream=WORK_EVENTS_0]", owner.name)
			p.until(`document.documentElement.dataset.phase === 'live'`)
			p.sound(name)
			if name != "light" {
				p.shotOfNodes("cluster-" + name)
			}
		})
	}
}

// shotOfNodes writes a screenshot of the panel, into the documentation if that is asked
// for.
func (p *tab) shotOfNodes(name string) {
	p.t.Helper()
	folder := p.t.TempDir()
	if os.Getenv(updateScreens) != "" {
		folder = screenFolder
	}
	p.eval(`document.querySelector('.panel-nodes').scrollIntoView()`, nil)
	p.eval(`scrollBy(0, -60)`, nil) // the head of the page lies above it
	file := filepath.Join(folder, name+".png")
	p.shot(file)
	if st, err := os.Stat(file); err != nil || st.Size() > maxScreen || st.Size() < 5000 {
		p.t.Errorf("screenshot %s: %v, %d bytes", file, err, st.Size())
	}
}

// sound checks names and contrast, on a phone also the room.
func (p *tab) sound(device string) {
	p.t.Helper()
	checks := map[string]string{"names": unnamed, "contrast": pale}
	if device == "phone" {
		checks["wider than a phone"], checks["too small to touch"] = wide, short
	}
	for what, script := range checks {
		var found []string
		if p.eval(script, &found); len(found) > 0 {
			p.t.Errorf("%s: %s", what, strings.Join(found, "\n"))
		}
	}
}

// Where there is one node nothing is shown of nodes.
func TestASingleNodeShowsNoPanel(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	p.see(".connection", "live")
	p.until(`performance.getEntriesByType('resource').some((r) => r.name.endsWith('/api/v1/nodes') && r.responseEnd > 0)`)
	p.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`, nil)
	for _, selector := range []string{".panel-nodes", ".banner"} {
		var shown bool
		if p.eval(fmt.Sprintf(`document.querySelector(%s).checkVisibility()`, quote(selector)), &shown); shown {
			t.Errorf("%s is shown: %s", selector, p.describe())
		}
	}
}
