package demo

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/loopback"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	clusterNodes = 3
	// nodeWithin bounds what a node, or the cluster without one, needs to be there, and so the
	// retries of a request: on a busy machine, elections and takeovers are slow.
	nodeWithin = 90 * time.Second
	// askEach is the time between two looks.
	askEach = 50 * time.Millisecond
)

// node is a node: a child process, which may be killed and started again.
type node struct {
	name, nats, route string
	dir, log          string
	cmd               *exec.Cmd
	ended             chan struct{} // closed when cmd has ended
	killed            bool          // once at least
}

// startNodes starts the nodes, and connects the client and the worker. Their connections
// move to another node when their own is gone.
func (d *demo) startNodes(ctx context.Context) error {
	began := time.Now()
	ports, err := loopback.Free(2 * clusterNodes)
	if err != nil {
		return err
	}
	var urls []string
	for i := range clusterNodes {
		name := fmt.Sprintf("n%d", i+1)
		d.nodes = append(d.nodes, &node{name: name, nats: ports[2*i], route: ports[2*i+1], dir: filepath.Join(d.data.dir, name), log: filepath.Join(d.data.dir, name+".log")})
		urls = append(urls, "nats://"+ports[2*i])
	}
	for _, n := range d.nodes {
		if err := d.launch(n); err != nil {
			return err
		}
	}
	if err := d.connect(func() (*nats.Conn, error) {
		return nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true), nats.Timeout(15*time.Second))
	}); err != nil {
		return err
	}
	nodes, err := d.until(ctx, "the three nodes are there", func(r streamwright.Nodes) bool { return r.Owner != "" && online(r) == clusterNodes })
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "three nodes in %s: %s owns the log, the others stand by\n", since(began), nodes.Owner)
	return nil
}

// launch starts a node's process.
func (d *demo) launch(n *node) error {
	args := []string{"serve", "--until-input-ends", "--dir", n.dir, "--http", "off", "--nats-listen", n.nats, "--cluster", "demo", "--node", n.name, "--cluster-listen", n.route}
	for _, peer := range d.nodes {
		args = append(args, "--peer", peer.route)
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(d.Program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.data.nodeIn, d.data.out, log
	withoutInterrupts(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %s: %w", n.name, err)
	}
	ended := make(chan struct{})
	n.cmd, n.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

// kill ends a node's process at once, if it runs, as a power cut would.
func (n *node) kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill() // fails if it has ended
		<-n.ended
		n.cmd = nil
	}
}

// lastWords returns the end of each node's log, for who wonders why it did not start.
func (d *demo) lastWords() string {
	var b strings.Builder
	for _, n := range d.nodes {
		data, _ := os.ReadFile(n.log)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(&b, "\n%s: %s", n.name, strings.Join(lines[max(0, len(lines)-3):], "\n    "))
	}
	return b.String()
}

// troubles kills the owner when the first items have ended, and a standby later, and lets the
// items go on before each is back.
func (d *demo) troubles(ctx context.Context) error {
	for i := range 2 {
		for int(d.ended.Load()) < (2*i+1)*len(d.paths)/6 {
			if err := sleep.For(ctx, askEach); err != nil {
				return err
			}
		}
		d.gate <- struct{}{} // while more comes in
		if err := d.trouble(ctx, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// trouble kills the owner, or a standby, sees that the others go on, and starts it
// again.
func (d *demo) trouble(ctx context.Context, owner bool) error {
	r, err := d.until(ctx, "a node owns the log", func(r streamwright.Nodes) bool { return r.Owner != "" })
	if err != nil {
		return err
	}
	var victim *node
	for _, n := range d.nodes {
		if (n.name == r.Owner) == owner && (victim == nil || victim.killed) {
			victim = n
		}
	}
	before, died := d.ended.Load(), time.Now()
	victim.kill()
	victim.killed = true
	what, then := "a standby", ""
	if owner {
		if r, err = d.until(ctx, "another node owns the log", func(r streamwright.Nodes) bool { return r.Owner != "" && r.Owner != victim.name && decides(r) }); err != nil {
			return err
		}
		what, then = "the owner", fmt.Sprintf("; %s decided %s later", r.Owner, since(died))
	}
	fmt.Fprintf(d.Out, "%s: killed %s, %s (SIGKILL), after %s%s\n", died.Format(time.TimeOnly), victim.name, what, events.Count(before, "item"), then)
	if err := d.launch(victim); err != nil {
		return err
	}
	if _, err = d.until(ctx, victim.name+" is back", func(r streamwright.Nodes) bool { return online(r) == clusterNodes }); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "%s: %s is back, and stands by; %s ended meanwhile\n", time.Now().Format(time.TimeOnly), victim.name, events.Count(d.ended.Load()-before, "item"))
	return nil
}

// until asks the nodes how they are until ok says so.
func (d *demo) until(ctx context.Context, what string, ok func(streamwright.Nodes) bool) (r streamwright.Nodes, err error) {
	for end := time.Now().Add(nodeWithin); time.Now().Before(end); {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		r, err = d.client.Engine().Nodes(try)
		cancel()
		if err == nil && ok(r) {
			return r, nil
		}
		if err := cmp.Or(d.supervise(), sleep.For(ctx, askEach)); err != nil {
			return r, err
		}
	}
	return r, fmt.Errorf("it did not come to this within %s: %s; warnings: %s%s", nodeWithin, what, strings.Join(r.Warnings, "; "), d.lastWords())
}

// supervise starts a node again that has ended by itself, as a service manager does.
func (d *demo) supervise() error {
	for _, n := range d.nodes {
		if n.cmd == nil {
			continue // it was killed
		}
		select {
		case <-n.ended:
			fmt.Fprintf(d.Out, "%s has ended by itself, and is started again%s\n", n.name, d.lastWords())
			if err := d.launch(n); err != nil {
				return err
			}
		default:
		}
	}
	return nil
}

func online(r streamwright.Nodes) (n int) {
	for _, x := range r.Nodes {
		if x.Online {
			n++
		}
	}
	return n
}

// decides reports whether the owner can decide.
func decides(r streamwright.Nodes) bool {
	return slices.ContainsFunc(r.Nodes, func(n wire.Node) bool { return n.Node == r.Owner && n.Role == wire.RoleOwner && !n.Recovering })
}
