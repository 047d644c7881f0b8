package clustertest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/need"
)

const (
	scaleNamespaces = 6
	scaleSlots      = 200 // of each namespace's worker
	scaleQuota      = 50  // ms of each 100, on all processors together: half a core
)

// TestScale measures what a node more carries: CLUSTERTEST_SCALE items, spread over six
// namespaces, from the first submission to the last completion, by a single node, and by three
// of which one, two and all own the namespaces. A node may use half a core
// (cgroup v1, as root); clients and workers use the rest of the machine.
func TestScale(t *testing.T) {
	items, _ := strconv.Atoi(os.Getenv("CLUSTERTEST_SCALE"))
	if items == 0 {
		t.Skip("CLUSTERTEST_SCALE is not set")
	}
	for _, run := range []struct{ nodes, owners int }{{1, 1}, {3, 1}, {3, 2}, {3, 3}} {
		t.Run(fmt.Sprintf("%d of %d", run.owners, run.nodes), func(t *testing.T) {
			c := newNodes(t, disks{}, run.nodes)
			c.owner()
			for _, n := range c.nodes {
				bounded(t, n)
			}
			q := c.spread(run.owners)
			// A part of it first, so that nothing is made for the first time while it counts.
			c.workOff(q("warm"), items/5)
			used := make([]float64, len(c.nodes))
			for i, n := range c.nodes {
				used[i] = c.cpu(n)
			}
			began := time.Now()
			c.workOff(q("scale"), items)
			rate := measure.PerSecond(items, began)
			text := ""
			for i, n := range c.nodes {
				text += fmt.Sprintf("; %s %.0f µs an item", n.name, 1e6*(c.cpu(n)-used[i])/float64(items))
			}
			t.Logf("%d of %d nodes own the namespaces: %.0f items/s%s", run.owners, run.nodes, rate, text)
		})
	}
}

// bounded lets a node use scaleQuota, and no more.
func bounded(t *testing.T, n *node) {
	group := filepath.Join("/sys/fs/cgroup/cpu", fmt.Sprintf("clustertest-%d-%s", os.Getpid(), n.name))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatalf("bound the processor time of %s: %v", n.name, err)
	}
	t.Cleanup(func() {
		n.kill()
		need.Eventually(t, "the group of "+n.name+" is empty", func() bool { return os.Remove(group) == nil })
	})
	for file, value := range map[string]int{"cpu.cfs_period_us": 100_000, "cpu.cfs_quota_us": scaleQuota * 1000, "cgroup.procs": n.cmd.Process.Pid} {
		if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(value)), 0o644); err != nil {
			t.Fatalf("bound the processor time of %s: %v", n.name, err)
		}
	}
}

// cpu returns the processor time that a node has used, in seconds.
func (c *cluster) cpu(n *node) (seconds float64) {
	c.t.Helper()
	res, err := http.Get("http://" + c.net.dial(outside, n.name, httpPort) + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), measure.SelfCPU+" "); found {
			if seconds, err = strconv.ParseFloat(value, 64); err != nil {
				c.t.Fatal(err)
			}
			return seconds
		}
	}
	c.t.Fatalf("%s has no %s", n.name, measure.SelfCPU)
	return 0
}

// spread adds the namespaces, the first nodes owning them in turn, and returns what makes the
// queue of a type over all of them.
func (c *cluster) spread(owners int) func(typ string) measure.Queue {
	c.t.Helper()
	ctx := c.t.Context()
	client := func(opts ...streamwright.Option) *streamwright.Client {
		cl, err := streamwright.Connect(ctx, c.urls(outside), append(opts, streamwright.WithNATS(c.options()...))...)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(cl.Close)
		return cl
	}
	list, clients := client().Namespaces(), []*streamwright.Client{}
	for i := range scaleNamespaces {
		name, node := fmt.Sprintf("b%d", i+1), ""
		if len(c.nodes) > 1 {
			node = c.nodes[i%owners].name
		}
		if err := measure.AddNamespace(ctx, list, name, node); err != nil {
			c.t.Fatal(err)
		}
		clients = append(clients, client(streamwright.WithNamespace(name)))
	}
	return func(typ string) measure.Queue {
		var parts []measure.Queue
		for _, cl := range clients {
			parts = append(parts, &measure.Streamwright{
				Client: cl, Dial: func() (*nats.Conn, error) { return c.connect(), nil }, Type: typ, Slots: scaleSlots, Decode: measure.SeqOf,
			})
		}
		return measure.NewSpread(parts...)
	}
}

// workOff submits items while workers run, and returns once all are completed.
func (c *cluster) workOff(q measure.Queue, items int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), finishWithin)
	defer cancel()
	t := measure.NewTally(items)
	stop, err := q.Work(ctx, func(p measure.Payload) { t.Saw(p.Seq) })
	if err == nil {
		err = measure.Bulk(ctx, q, 0, items, measure.BulkCallers)
	}
	if err == nil {
		err = measure.Drain(ctx, q, t)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if err := stop(); err != nil {
		c.t.Error(err)
	}
}
