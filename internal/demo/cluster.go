package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/loopback"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

const (
	clusterNodes = 3
	// maxClusterFiles bounds the files of a demo of a cluster: each decision is on
	// three disks, or on one thrice.
	maxClusterFiles = 3000
	// clusterChunk is the number of items of one submission.
	clusterChunk = 50
	// nodeWithin bounds what a node, or the cluster without one, needs to be there.
	nodeWithin = 90 * time.Second
	// askEach is the time between two looks.
	askEach = 50 * time.Millisecond
	// requestWithin bounds one try of a request, which may wait for an owner.
	requestWithin = 15 * time.Second
	// patience bounds the retries of a request. On a busy machine, elections and takeovers
	// are slow.
	patience = time.Minute
)

// process is a node: a child process, which may be killed and started again.
type process struct {
	name, nats, route string
	dir, log          string
	cmd               *exec.Cmd
	ended             chan struct{} // closed when cmd has ended
	killed            bool          // once at least
}

// clusterDemo is a demo on three nodes.
type clusterDemo struct {
	demo
	data  *scratch
	nodes []*process
	done  atomic.Int64 // items that have ended
}

// RunCluster is Run on three nodes, child processes of this program on loopback ports.
// Meanwhile it kills the owner of the log and a standby, and starts them again. The nodes
// end with this process, whatever that dies of.
func RunCluster(ctx context.Context, o Options) (err error) {
	if o.Slots == 0 {
		o.Slots = 8
	}
	if o.Report == nil {
		o.Report = new(Report)
	}
	paths, _, err := files(o.Dir)
	if err != nil {
		return fmt.Errorf("read %s: %w: name a folder that is there", o.Dir, err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("there is no readable file under %s: name a folder that has some", o.Dir)
	}
	more := len(paths) > maxClusterFiles
	paths = paths[:min(len(paths), maxClusterFiles)]
	data, err := newScratch(o.Program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.remove()) }()
	d := &clusterDemo{demo: demo{Options: o, paths: paths}, data: data}
	defer func() { err = errors.Join(err, d.stopAll()) }()
	if err := d.startAll(ctx); err != nil {
		return fmt.Errorf("%w%s", err, d.lastWords())
	}
	fmt.Fprintf(o.Out, "%s under %s, one work item each", events.Count(len(paths), "file"), o.Dir)
	if more {
		fmt.Fprintf(o.Out, " (the first %d)", maxClusterFiles)
	}
	fmt.Fprintln(o.Out)
	return d.runAll(ctx)
}

// startAll starts the nodes, a client and a worker.
func (d *clusterDemo) startAll(ctx context.Context) error {
	began := time.Now()
	ports, err := loopback.Free(2 * clusterNodes)
	if err != nil {
		return err
	}
	for i := range clusterNodes {
		name := fmt.Sprintf("n%d", i+1)
		d.nodes = append(d.nodes, &process{name: name, nats: ports[2*i], route: ports[2*i+1], dir: filepath.Join(d.data.dir, name), log: filepath.Join(d.data.dir, name+".log")})
	}
	for _, n := range d.nodes {
		if err := d.launch(n); err != nil {
			return err
		}
	}
	if err := d.connectAll(ctx); err != nil {
		return err
	}
	nodes, err := d.until(ctx, "the three nodes are there", func(r streamwright.Nodes) bool { return r.Owner != "" && online(r) == clusterNodes })
	if err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "three nodes in %s: %s owns the log, the others stand by\n", since(began), nodes.Owner)
	workers.Handle(d.worker, workType, checksum)
	return d.worker.Start(ctx)
}

// launch starts a node's process.
func (d *clusterDemo) launch(n *process) error {
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
	n.cmd, n.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(n.ended)
	return nil
}

// kill ends a node's process at once, as a power cut would.
func (n *process) kill() {
	_ = n.cmd.Process.Kill() // fails if it has ended
	<-n.ended
}

// connectAll makes the client and the worker, each with a connection of its own that
// moves to another node when its own is gone.
func (d *clusterDemo) connectAll(ctx context.Context) (err error) {
	var urls []string
	for _, n := range d.nodes {
		urls = append(urls, "nats://"+n.nats)
	}
	quiet := slog.New(slog.DiscardHandler)
	for i := range d.conns {
		d.conns[i], err = nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true), nats.Timeout(requestWithin))
		if err != nil {
			return err
		}
	}
	if d.client, err = streamwright.New(d.conns[0], streamwright.WithPatience(patience)); err != nil {
		return err
	}
	d.worker, err = workers.New(d.conns[1], workers.Config{ID: "demo", Concurrency: d.Slots, Logger: quiet})
	return err
}

// stopAll kills the nodes behind the worker. Nothing that they hold is needed then.
func (d *clusterDemo) stopAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if d.worker != nil {
		_ = d.worker.Stop(ctx) // without an engine it can't say good-bye
	}
	if d.client != nil {
		d.client.Close()
	}
	for _, nc := range d.conns {
		if nc != nil {
			nc.Close()
		}
	}
	var all sync.WaitGroup
	for _, n := range d.nodes {
		if n.cmd != nil {
			all.Go(n.kill)
		}
	}
	all.Wait()
	return nil
}

// lastWords returns the end of each node's log, for who wonders why it did not start.
func (d *clusterDemo) lastWords() string {
	var b strings.Builder
	for _, n := range d.nodes {
		data, _ := os.ReadFile(n.log)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		fmt.Fprintf(&b, "\n%s: %s", n.name, strings.Join(lines[max(0, len(lines)-3):], "\n    "))
	}
	return b.String()
}

// runAll submits and kills at once, and proves the outcome.
func (d *clusterDemo) runAll(ctx context.Context) error {
	begun := time.Now()
	show, end := d.progress()
	defer end()
	parts := [3]chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})} // each third of the items waits for its own
	close(parts[0])
	var ids []string
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	submitted := make(chan error, 1)
	go func() {
		var err error
		ids, err = d.submitParts(run, parts)
		submitted <- err
	}()
	watching := make(chan struct{})
	go func() { defer close(watching); d.count(run, show) }()
	err := d.troubles(run, parts)
	if err != nil {
		cancel()
	}
	err = errors.Join(err, <-submitted)
	for err == nil && int(d.done.Load()) < len(d.paths) {
		err = sleep.For(ctx, askEach)
	}
	cancel()
	<-watching
	end()
	if err != nil {
		return err
	}
	took := time.Since(begun)
	d.Report.Files, d.Report.ElapsedMS = len(ids), took.Milliseconds()
	fmt.Fprintf(d.Out, "done in %s, %.0f items/s, both deaths included\n\nproofs\n", since(begun), float64(len(ids))/took.Seconds())
	for _, p := range []func(context.Context, []string) error{d.proveResults, d.proveOnce, d.proveNodes} {
		if err := p(ctx, ids); err != nil {
			return err
		}
	}
	return nil
}

// submitParts submits an item for each file, and each chunk twice: the second time it
// is recognised. A try without an answer is repeated.
func (d *clusterDemo) submitParts(ctx context.Context, parts [3]chan struct{}) ([]string, error) {
	ids := make([]string, len(d.paths))
	for at := 0; at < len(ids); at += clusterChunk {
		select {
		case <-parts[min(at*len(parts)/len(ids), len(parts)-1)]:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		end := min(at+clusterChunk, len(ids))
		for round := range 2 {
			if err := d.submitChunk(ctx, ids, at, end, round == 1); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

func (d *clusterDemo) submitChunk(ctx context.Context, ids []string, at, end int, again bool) error {
	items := make([]streamwright.Item, 0, end-at)
	for _, p := range d.paths[at:end] {
		items = append(items, streamwright.Item{Type: workType, Params: file{Path: p}, IdempotencyKey: p, Source: "demo"})
	}
	answers, err := retry(ctx, func(ctx context.Context) ([]streamwright.Submitted, error) { return d.client.SubmitMany(ctx, items) })
	if err != nil {
		return err
	}
	for i, a := range answers {
		switch {
		case a.Error != nil:
			return fmt.Errorf("submit %s: %w", d.paths[at+i], a.Error.Err())
		case again && a.ID != ids[at+i]:
			return fmt.Errorf("%s was submitted twice with one idempotency key and became two items", d.paths[at+i])
		}
		ids[at+i] = a.ID
	}
	return nil
}

// retry asks until there is an answer, as a program does whose request must be done.
func retry[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	for end := time.Now().Add(nodeWithin); ; {
		try, cancel := context.WithTimeout(ctx, requestWithin)
		v, err := fn(try)
		cancel()
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return v, err
		}
		if err := sleep.For(ctx, askEach); err != nil {
			return v, err
		}
	}
}

// count follows how many items have ended, until ctx ends.
func (d *clusterDemo) count(ctx context.Context, show func(int)) {
	for sleep.For(ctx, askEach) == nil {
		try, cancel := context.WithTimeout(ctx, requestWithin)
		s, err := d.client.Engine().Stats(try)
		cancel()
		if err != nil {
			continue // nobody owns the log just now
		}
		var n int64
		for _, t := range s.Types {
			n += t.States["completed"] + t.States["dead"] + t.States["cancelled"]
		}
		d.done.Store(n)
		show(int(n))
	}
}

// troubles kills the owner when the first items have ended, and a standby later, and
// lets the items go on before each is back.
func (d *clusterDemo) troubles(ctx context.Context, parts [3]chan struct{}) error {
	for i, owner := range []bool{true, false} {
		if err := d.ended(ctx, (2*i+1)*len(d.paths)/6); err != nil {
			return err
		}
		close(parts[i+1]) // while more comes in
		if err := d.trouble(ctx, owner); err != nil {
			return err
		}
	}
	return nil
}

// ended waits until so many items have.
func (d *clusterDemo) ended(ctx context.Context, n int) error {
	for int(d.done.Load()) < n {
		if err := sleep.For(ctx, askEach); err != nil {
			return err
		}
	}
	return nil
}

// trouble kills the owner, or a standby, sees that the others go on, and starts it
// again.
func (d *clusterDemo) trouble(ctx context.Context, owner bool) error {
	r, err := d.until(ctx, "a node owns the log", func(r streamwright.Nodes) bool { return r.Owner != "" })
	if err != nil {
		return err
	}
	var victim *process
	for _, n := range d.nodes {
		if (n.name == r.Owner) == owner && (victim == nil || victim.killed) {
			victim = n
		}
	}
	before, died := d.done.Load(), time.Now()
	victim.kill()
	victim.killed, victim.cmd = true, nil
	what := "a standby"
	if owner {
		what = "the owner"
		if r, err = d.until(ctx, "another node owns the log", func(r streamwright.Nodes) bool { return r.Owner != "" && r.Owner != victim.name && decides(r) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.Out, "%s: killed %s, %s (SIGKILL), after %s", died.Format(time.TimeOnly), victim.name, what, events.Count(before, "item"))
	if owner {
		fmt.Fprintf(d.Out, "; %s decided %s later", r.Owner, since(died))
	}
	fmt.Fprintln(d.Out)
	if err := d.launch(victim); err != nil {
		return err
	}
	if _, err = d.until(ctx, victim.name+" is back", func(r streamwright.Nodes) bool { return online(r) == clusterNodes }); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "%s: %s is back, and stands by; %s ended meanwhile\n", time.Now().Format(time.TimeOnly), victim.name, events.Count(d.done.Load()-before, "item"))
	return nil
}

// until asks the nodes how they are until ok says so.
func (d *clusterDemo) until(ctx context.Context, what string, ok func(streamwright.Nodes) bool) (r streamwright.Nodes, err error) {
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
func (d *clusterDemo) supervise() error {
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
	for _, n := range r.Nodes {
		if n.Node == r.Owner && n.Role == wire.RoleOwner {
			return !n.Recovering
		}
	}
	return false
}

// proveNodes has every node replay the log into a second store, and compare.
func (d *clusterDemo) proveNodes(ctx context.Context, _ []string) error {
	for _, n := range d.nodes {
		res, err := retry(ctx, func(ctx context.Context) (streamwright.Proof, error) {
			return d.client.Engine().VerifyNode(ctx, n.name, nil)
		})
		if err != nil {
			return fmt.Errorf("verify %s: %w", n.name, err)
		}
		if !res.Equal {
			return fmt.Errorf("the store of %s is not what the log says: %v", n.name, res.Diff)
		}
		d.Report.Replayed, d.Report.Digest = res.Events, res.Digest
		fmt.Fprintf(d.Out, "  node %s    %s replayed in %s give its store, byte for byte\n             digest %s\n", n.name, events.Count(int64(res.Events), "event"), time.Duration(res.ElapsedMS)*time.Millisecond, res.Digest)
	}
	return nil
}
