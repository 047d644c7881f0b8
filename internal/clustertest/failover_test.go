package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// TestFailover measures how long work stands still after each kind of death: the
// longest time without an answer to submissions that are asked all the time, and
// from its begin to the start of the first handler after it. CLUSTERTEST_DEATH, part of a
// death's name, leaves out the others.
func TestFailover(t *testing.T) {
	runs, _ := strconv.Atoi(os.Getenv("CLUSTERTEST_FAILOVER"))
	if runs == 0 {
		t.Skip("CLUSTERTEST_FAILOVER is not set")
	}
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			c := start(t, disks{})
			p := newProbe(c)
			for _, death := range deaths {
				if !strings.Contains(death.name, os.Getenv("CLUSTERTEST_DEATH")) {
					continue
				}
				var submits, starts []time.Duration
				for range runs {
					p.steady()
					victim := death.victim(c)
					if victim == nil {
						break
					}
					submit, start := p.measure(func() { death.die(c, victim) })
					submits, starts = append(submits, submit), append(starts, start)
					c.mend()
				}
				if len(submits) > 0 {
					t.Logf("%s, %d runs: next submission %s; its handler %s", death.name, runs, figures(submits), figures(starts))
				}
			}
		})
	}
}

// figures are the median, the maximum and all.
func figures(d []time.Duration) string {
	all := make([]string, len(d))
	for i, x := range d {
		all[i] = strconv.FormatInt(x.Milliseconds(), 10)
	}
	slices.Sort(d)
	return fmt.Sprintf("median %d ms, max %d ms (%s)", d[len(d)/2].Milliseconds(), d[len(d)-1].Milliseconds(), strings.Join(all, " "))
}

// deaths are the ways to go, with who is to go; nil: nobody in such a cluster.
var deaths = []struct {
	name   string
	victim func(*cluster) *node
	die    func(*cluster, *node)
}{
	{"SIGTERM to the owner", (*cluster).owner, func(_ *cluster, n *node) { n.stop() }},
	{"kill -9 of the owner", (*cluster).owner, func(_ *cluster, n *node) { n.kill() }},
	{"kill -9 of a standby", (*cluster).standby, func(_ *cluster, n *node) { n.kill() }},
	{"kill -9 of the stream's leader", (*cluster).leader, func(_ *cluster, n *node) { n.kill() }},
	{"cut of the owner", (*cluster).owner, (*cluster).cutOff},
	{"healing of that cut", (*cluster).ownerWithout, func(c *cluster, _ *node) { c.net.heal() }},
}

// cutOff cuts a node off from everyone.
func (c *cluster) cutOff(n *node) { c.isolate(n.name, append(c.places(), outside)) }

// cutFor is how long a cut lasts: until the others have an owner, and the links that were cut
// have been given up.
const cutFor = 20 * time.Second

// ownerWithout cuts the owner off, and returns it when the others have done without for a while.
func (c *cluster) ownerWithout() *node {
	c.t.Helper()
	cut := c.owner()
	c.cutOff(cut)
	began := time.Now()
	c.owner()
	pause(c.t.Context(), cutFor-time.Since(began))
	return cut
}

// probe submits all the time, and works.
type probe struct {
	c      *cluster
	nc     *nats.Conn
	mu     sync.Mutex // guards starts
	starts map[string]time.Time
}

func newProbe(c *cluster) *probe {
	p := &probe{c: c, nc: c.connect(), starts: map[string]time.Time{}}
	c.t.Cleanup(p.nc.Close)
	ctx := c.t.Context()
	for n := range 2 {
		nc := c.connect()
		w, err := workers.New(nc, workers.Config{Concurrency: 8, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			c.t.Fatal(err)
		}
		workers.HandleRaw(w, "lib", func(_ context.Context, it *workers.RawItem) (any, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, again := p.starts[it.ID.String()]; !again {
				p.starts[it.ID.String()] = time.Now()
			}
			return nil, nil
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := w.Run(ctx); err != nil && ctx.Err() == nil {
				c.t.Errorf("worker %d: %v", n, err)
			}
		}()
		c.t.Cleanup(func() { // the test's context has ended
			<-ended
			nc.Close()
		})
	}
	return p
}

func (p *probe) started(id string) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.starts[id]
	return at, ok
}

// submit makes one try.
func (p *probe) submit(id string, timeout time.Duration) bool {
	body, err := json.Marshal(wire.Submit{Type: "lib", ID: id})
	if err != nil {
		p.c.t.Error(err)
	}
	msg, err := p.nc.Request(wire.Default.API("submit"), body, timeout)
	return err == nil && msg.Header.Get("Nats-Service-Error") == ""
}

// steady waits until a hundred items in a row are done at once, and every
// stream has all its replicas again.
func (p *probe) steady() {
	p.c.t.Helper()
	began := time.Now()
	for row := 0; row < 100; {
		if time.Since(began) > finishWithin {
			p.c.t.Fatalf("the cluster is not steady after %s", finishWithin)
		}
		row++
		id := ulid.Make().String()
		asked := time.Now()
		if !p.submit(id, time.Second) {
			row = 0
			p.c.revive()
			pause(p.c.t.Context(), 50*time.Millisecond)
			continue
		}
		for {
			if _, ok := p.started(id); ok {
				break
			}
			if time.Since(asked) > time.Second {
				row = 0
				break
			}
			pause(p.c.t.Context(), time.Millisecond)
		}
		if row == 100 && !p.c.replicated() {
			row = 0
		}
	}
	// Whoever was started just now is to follow, and to be asked to stand by.
	pause(p.c.t.Context(), 2*time.Second)
}

// measure does what ends a node, and returns the longest gap of the next 12 s.
func (p *probe) measure(death func()) (submit, start time.Duration) {
	p.c.t.Helper()
	died := time.Now()
	go death()
	type answer struct {
		id string
		at time.Time
	}
	answers := make(chan answer, 1)
	tries := time.NewTicker(10 * time.Millisecond)
	defer tries.Stop()
	limit := time.After(finishWithin)
	var first answer // after the gap
	var gap time.Duration
	last := died
	for watch := time.After(12 * time.Second); ; {
		select {
		case <-tries.C:
			id := ulid.Make().String()
			go func() {
				if p.submit(id, time.Second) {
					select {
					case answers <- answer{id, time.Now()}:
					case <-time.After(time.Second):
					}
				}
			}()
			continue
		case a := <-answers:
			if d := a.at.Sub(last); d > gap {
				gap, first = d, a
			}
			last = a.at
			continue
		case <-watch:
			if first.id != "" && time.Since(last) < time.Second {
				break
			}
			watch = time.After(time.Second)
			continue
		case <-limit:
			p.c.t.Fatalf("no submission is answered within %s", finishWithin)
		}
		break
	}
	for {
		if at, ok := p.started(first.id); ok {
			return gap, gap + max(0, at.Sub(first.at))
		}
		select {
		case <-limit:
			p.c.t.Fatalf("item %s is accepted, and not run within %s", first.id, finishWithin)
		default:
			pause(p.c.t.Context(), time.Millisecond)
		}
	}
}

// replicated reports whether every stream has all its replicas, and they are current.
func (c *cluster) replicated() bool {
	msg, err := c.streams()
	if err != nil {
		return false
	}
	for _, s := range msg {
		if s.Cluster.Leader == "" {
			return false
		}
		for _, r := range s.Cluster.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
	}
	return len(msg) > 0
}

// stream is what JetStream tells of one.
type stream struct {
	Config  struct{ Name string }
	Cluster struct {
		Leader   string
		Replicas []struct {
			Name             string
			Current, Offline bool
		}
	}
}

func (c *cluster) streams() ([]stream, error) {
	nc := c.connect()
	defer nc.Close()
	msg, err := nc.Request("$JS.API.STREAM.LIST", []byte("{}"), 2*time.Second)
	if err != nil {
		return nil, err
	}
	var reply struct{ Streams []stream }
	err = json.Unmarshal(msg.Data, &reply)
	return reply.Streams, err
}
