package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// process is a program that is started again each time it was killed.
type process struct {
	t    *testing.T
	args []string
	env  []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

func (p *process) start() {
	p.t.Helper()
	p.log = &bytes.Buffer{}
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = io.Discard, p.log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.cmd = nil
}

// link is a network link that can be cut.
type link struct {
	to string
	l  net.Listener

	mu    sync.Mutex
	down  bool                  // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu
}

func newLink(t *testing.T, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{to: to, l: l, conns: map[net.Conn]struct{}{}}
	t.Cleanup(func() { l.Close(); k.set(true) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.carry(c)
		}
	}()
	return k
}

func (k *link) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer far.Close()
	k.mu.Lock()
	if k.down {
		k.mu.Unlock()
		return
	}
	k.conns[near], k.conns[far] = struct{}{}, struct{}{}
	k.mu.Unlock()
	go func() { _, _ = io.Copy(far, near); far.Close() }()
	_, _ = io.Copy(near, far)
}

// set cuts the link, or mends it.
func (k *link) set(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down = down; down {
		for c := range k.conns {
			c.Close()
		}
		clear(k.conns)
	}
}

// rounds is the number of parts in which submissions are published, with a fault in each.
func rounds(n int) int { return max(10, n/100) }

// publishAll publishes n submissions at a site one by one, each until it is acknowledged,
// and a part of them for each value that it receives from begin.
func publishAll(ctx context.Context, t *testing.T, url, site string, n int, begin <-chan struct{}) {
	nc, err := nats.Connect(url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	for i := range n {
		if i%(n/rounds(n)) == 0 && i/(n/rounds(n)) < rounds(n) {
			select {
			case <-begin:
			case <-ctx.Done():
			}
		}
		msg := &nats.Msg{Subject: wire.Default.Submit("parcel"), Data: fmt.Appendf(nil, `{"site":%q,"n":%d}`, site, i),
			Header: nats.Header{nats.MsgIdHdr: {"m" + strconv.Itoa(i)}}} // the sites use the same ids
		for stored := false; !stored; {
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			m, err := nc.RequestMsgWithContext(try, msg)
			cancel()
			stored = err == nil && bytes.Contains(m.Data, []byte(`"seq"`))
			if ctx.Err() != nil {
				t.Errorf("site %s: submission %d was not stored: %v", site, i, err)
				return
			}
		}
	}
}

// What is published at two sites arrives at the hub once each, in the site's order,
// although the hub and the sites are killed and a link is cut, again and again.
// CHAOS_EDGE is the number of submissions from each site.
func TestSitesUnderKills(t *testing.T) {
	need.Seconds(t)
	n := 400
	if v, err := strconv.Atoi(os.Getenv("CHAOS_EDGE")); err == nil {
		n = v
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	dir, bin := t.TempDir(), build(t)
	hubAt, leafAt := need.Address(t).String(), need.Address(t).String()
	config := filepath.Join(dir, "engine.toml")
	text := fmt.Sprintf("[leaf]\nlisten = %q\n[[leaf.sites]]\nname = \"lab\"\ntoken = \"lab-0123456789\"\n[[leaf.sites]]\nname = \"van\"\ntoken = \"van-0123456789\"\n", leafAt)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := &process{t: t, args: []string{bin, "serve", "--dir", filepath.Join(dir, "hub"), "--config", config, "--nats-listen", hubAt, "--http", "off"}}
	cable := newLink(t, leafAt)
	all := []*process{hub}
	var publishing sync.WaitGroup
	var begin []chan struct{}
	for site, to := range map[string]string{"lab": cable.l.Addr().String(), "van": leafAt} {
		at := need.Address(t).String()
		p := &process{t: t, args: []string{bin, "edge", "--hub", "nats-leaf://" + to, "--name", site, "--dir", filepath.Join(dir, site), "--nats-listen", at},
			env: []string{"WORK_SITE_TOKEN=" + site + "-0123456789"}}
		all = append(all, p)
		turn := make(chan struct{}, rounds(n)+1) // as many as there are parts
		begin = append(begin, turn)
		publishing.Go(func() { publishAll(ctx, t, "nats://"+at, site, n, turn) })
	}
	for _, p := range all {
		p.start()
		defer p.kill()
	}
	for range rounds(n) {
		for _, c := range begin {
			c <- struct{}{}
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) // the fault comes at any moment
		if i := rand.IntN(len(all) + 1); i < len(all) {
			all[i].kill()
			all[i].start()
		} else {
			cable.set(true)
			time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond) // the cut's length
			cable.set(false)
		}
	}
	publishing.Wait()
	t.Logf("%d submissions from each site, %d kills and cuts", n, rounds(n))
	defer func() {
		if t.Failed() {
			for _, p := range all {
				p.kill() // its log is whole then
				t.Logf("%v:\n%s", p.args[1:], p.log)
			}
		}
	}()
	arrived(ctx, t, hubAt, map[string]int{"lab": n, "van": n})
}

// arrived waits until the hub has as many submissions of each site as wanted, and checks
// that it has each once, in order, and has rejected none.
func arrived(ctx context.Context, t *testing.T, hub string, want map[string]int) {
	t.Helper()
	nc, err := nats.Connect("nats://"+hub, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := streamwright.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	next, missing := map[string]int{}, 0
	for _, n := range want {
		missing += n
	}
	var last events.Seq
	take := func(ev streamwright.Event) error {
		last = ev.Seq
		if ev.Kind == events.KindRejected {
			t.Fatalf("a submission was rejected: %s", ev.Data)
		}
		if ev.Kind != events.KindCreated {
			return nil
		}
		var made struct {
			Site   string
			Params struct {
				Site string
				N    int
			}
		}
		if err := json.Unmarshal(ev.Data, &made); err != nil {
			t.Fatal(err)
		}
		if p := made.Params; p.N != next[p.Site] || made.Site != p.Site {
			t.Fatalf("site %s: submission %d came where %d was due: %s", p.Site, p.N, next[p.Site], ev.Data)
		}
		next[made.Site]++
		missing--
		return nil
	}
	for end, quiet := time.Now().Add(2*time.Minute), 0; missing > 0 || quiet < 2; quiet++ {
		before := last
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := c.Tail(try, streamwright.TailOptions{FromSeq: last + 1}, take)
		cancel()
		if ctx.Err() != nil || time.Now().After(end) {
			t.Fatalf("%d submissions are missing; arrived: %v; %v", missing, next, err)
		}
		if last > before {
			quiet = 0
		}
	}
}
