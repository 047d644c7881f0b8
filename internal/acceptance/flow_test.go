package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// plan is the params of a node in a tree of items.
type plan struct {
	Name   string
	Policy events.ChildPolicy
	Below  []plan `json:",omitempty"`
	Broken bool   `json:",omitempty"`
}

// grow is a handler that spawns a plan, and sums up what came of it.
func grow(_ context.Context, it *workers.Item[plan]) (any, error) {
	p := it.Params
	switch {
	case p.Broken:
		return nil, workers.Permanent(errors.New(p.Name + " is broken"))
	case len(p.Below) == 0:
		return p.Name, nil
	case it.Continuation == nil:
		var below []workers.Child
		for _, b := range p.Below {
			below = append(below, workers.Child{Type: "node", Params: b})
		}
		return workers.Spawn(below...).Then("sum").OnFailure(p.Policy), nil
	}
	var parts []string
	for _, child := range it.Continuation.Children {
		var text string
		if err := child.Decode(&text); err != nil {
			var dead *workers.ChildError
			if !errors.As(err, &dead) {
				return nil, err
			}
			text = fmt.Sprintf("%s:%s", dead.Outcome.State, dead.Outcome.Code)
		}
		parts = append(parts, text)
	}
	return fmt.Sprintf("%s(%s)", p.Name, strings.Join(parts, " ")), nil
}

// family is a plan of three levels, one of whose leaves is broken.
func family(policy events.ChildPolicy) plan {
	leaf := func(name string, broken bool) plan { return plan{Name: name, Policy: policy, Broken: broken} }
	return plan{Name: "root", Policy: policy, Below: []plan{
		{Name: "left", Policy: policy, Below: []plan{leaf("a", false), leaf("b", true)}},
		{Name: "right", Policy: policy, Below: []plan{leaf("c", false), leaf("d", false)}},
	}}
}

func TestSpawnTreeWithAFailingLeaf(t *testing.T) {
	r := inMemory(t, "")
	r.worker(workers.Config{Concurrency: 4}, "node", workers.Typed(grow))

	root := r.submit(streamwright.Item{Type: "node", Params: family(events.ChildContinue), Tenant: "acme"})
	it := r.wait(root, events.StateCompleted)
	if got := string(it.Result); got != `"root(left(a dead:error) right(c d))"` {
		t.Errorf("the continuations made %s", got)
	}
	if want := []string{"created", "queued", "claimed", "running", "spawned", "queued"}; !slices.Equal(r.kinds(root)[:len(want)], want) {
		t.Errorf("history %v", r.kinds(root))
	}
	tree := must(r.c.Tree(r.ctx, root))(t)
	if tree.Nodes != 6 || len(tree.Root.Children) != 2 || len(tree.Path) != 0 {
		t.Fatalf("tree %+v", tree)
	}
	left := tree.Root.Children[0]
	if b := left.Children[1]; b.State != events.StateDead || b.Type != "node" {
		t.Errorf("the broken leaf is %+v", b)
	}
	leaf := must(r.c.Tree(r.ctx, left.Children[1].ID))(t)
	if len(leaf.Path) != 2 || leaf.Path[0].ID != root || leaf.Path[1].ID != left.ID {
		t.Errorf("the path above the leaf is %+v", leaf.Path)
	}
	if b := r.get(left.Children[0].ID); b.Parent != left.ID || b.Tenant != "acme" {
		t.Errorf("a leaf is %+v", b)
	}
	if cut := must(r.c.TreeWithin(r.ctx, root, 1, 0))(t); cut.Nodes != 2 || !cut.Root.Children[0].Truncated || cut.Root.Truncated {
		t.Errorf("a tree of depth 1: %+v", cut)
	}
	if cut := must(r.c.TreeWithin(r.ctx, root, 0, 3))(t); cut.Nodes != 3 || !cut.Root.Children[0].Truncated || !cut.Root.Children[1].Truncated {
		t.Errorf("a tree of three: %+v", cut)
	}

	root = r.submit(streamwright.Item{Type: "node", Params: family(events.ChildFail)})
	it = r.wait(root, events.StateDead)
	if it.Error == nil || !strings.Contains(it.Error.Message, "child") || it.By == "" {
		t.Errorf("a root whose child failed: %+v, by %q", it.Error, it.By)
	}
	eventually(t, "everything below a dead root has ended", func() bool {
		return r.ended(root)
	})
	r.verify()
}

// ended reports whether all that is below an item has ended.
func (r *rig) ended(root string) bool {
	r.t.Helper()
	var all func(n streamwright.TreeNode) bool
	all = func(n streamwright.TreeNode) bool {
		return n.State.Terminal() && !slices.ContainsFunc(n.Children, func(c streamwright.TreeNode) bool { return !all(c) })
	}
	return all(must(r.c.Tree(r.ctx, root))(r.t).Root)
}

func TestFanOutWithACallback(t *testing.T) {
	r := inMemory(t, "")
	var order []string
	ran := make(chan string, 200)
	note := func(_ context.Context, it *workers.RawItem) (any, error) {
		ran <- string(it.Type)
		return nil, nil
	}
	items := make([]streamwright.Item, 100)
	for i := range items {
		items[i] = streamwright.Item{Type: "part", Params: i}
	}
	callback := streamwright.Item{Type: "finish"}
	b := must(r.c.Batches().Submit(r.ctx, items, &callback))(t)
	if it := r.get(b.Callback.ID); it.State != events.StateWaiting || len(it.Waits) != 1 || it.Waits[0] != b.ID {
		t.Fatalf("the callback is %s, waits for %v", it.State, it.Waits)
	}
	r.worker(workers.Config{Concurrency: 8}, "finish", note)
	r.worker(workers.Config{Concurrency: 8}, "part", note)
	r.wait(b.Callback.ID, events.StateCompleted)
	for range 101 {
		order = append(order, recv(t, "a run", ran))
	}
	if order[100] != "finish" || slices.Index(order, "finish") != 100 {
		t.Errorf("the callback ran at place %d of 101", slices.Index(order, "finish"))
	}
	// The same again changes nothing.
	again := must(r.c.Batches().Submit(r.ctx, items, &callback))(t)
	if again.Callback.ID != b.Callback.ID || !again.Callback.Repeat || !again.Items[7].Repeat {
		t.Errorf("a repeat made %+v", again.Callback)
	}
	r.verify()
}

func TestAfterPolicies(t *testing.T) {
	r := inMemory(t, "[defaults]\nmax_attempts = 1\n")
	r.worker(workers.Config{}, "bad", func(context.Context, *workers.RawItem) (any, error) { return nil, errors.New("no") })
	r.worker(workers.Config{}, "good", done)
	for policy, want := range map[events.AfterPolicy]events.ItemState{
		"": events.StateCancelled, events.AfterCancel: events.StateCancelled, events.AfterDead: events.StateDead, events.AfterRun: events.StateCompleted,
	} {
		first := r.submit(streamwright.Item{Type: "bad", Delay: 50 * time.Millisecond})
		it := r.wait(r.submit(streamwright.Item{Type: "good", After: []string{first}, AfterPolicy: policy}), want)
		if want != events.StateCompleted && it.By != first {
			t.Errorf("%q: ended because of %q, not %s", policy, it.By, first)
		}
	}
	_, err := r.c.Submit(r.ctx, streamwright.Item{Type: "good", After: []string{"01JD3V6YB2M4C9W8ZK5T7QXRNE"}})
	wantCode(t, err, events.CodeNotFound, "01JD3V6YB2M4C9W8ZK5T7QXRNE")
}

func TestSnoozeUsesNoAttempt(t *testing.T) {
	r := inMemory(t, "")
	runs := make(chan events.Attempt, 10)
	r.worker(workers.Config{}, "later", func(_ context.Context, it *workers.RawItem) (any, error) {
		runs <- it.Attempt
		if len(runs) < 3 {
			return workers.Snooze(20 * time.Millisecond).Because("not yet"), nil
		}
		return "now", nil
	})
	id := r.submit(streamwright.Item{Type: "later", MaxAttempts: 1})
	it := r.wait(id, events.StateCompleted)
	if n := strings.Count(strings.Join(r.kinds(id), " "), "snoozed"); n != 2 || it.Error != nil || it.Attempt != 1 {
		t.Errorf("%d snoozes, error %+v, attempt %d", n, it.Error, it.Attempt)
	}
	r.verify()
}

func TestProgressIsSeenLive(t *testing.T) {
	r := inMemory(t, "")
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	seen := make(chan streamwright.Event, 100)
	tailed := make(chan error, 1)
	go func() {
		tailed <- r.c.Tail(ctx, streamwright.TailOptions{FromSeq: 1, Kinds: []streamwright.Kind{streamwright.KindProgressed}}, func(ev streamwright.Event) error {
			seen <- ev
			return nil
		})
	}()
	said, finish := make(chan struct{}), make(chan struct{})
	r.worker(workers.Config{}, "slow", func(ctx context.Context, it *workers.RawItem) (any, error) {
		workers.Progress(ctx, 25, "a quarter")
		for p := range 50 {
			workers.Progress(ctx, 25+p, "more") // far more than is told
		}
		<-said
		workers.Progress(ctx, 100, "written")
		<-finish
		return nil, nil
	})
	id := r.submit(streamwright.Item{Type: "slow"})
	if ev := recv(t, "progress", seen); ev.ID != id || !contains(string(ev.Data), `"percent":25`) {
		t.Errorf("the first is %s", ev.Data)
	}
	// The tail is ahead of what queries see.
	eventually(t, "the item shows its progress", func() bool { return r.get(id).Progress != nil })
	if p := r.get(id).Progress; p.Percent != 25 || p.Message != "a quarter" {
		t.Errorf("the item's progress is %+v", p)
	}
	close(said)
	if ev := recv(t, "progress", seen); !contains(string(ev.Data), `"percent":100`) && !contains(string(ev.Data), `"percent":74`) {
		t.Errorf("the second is %s", ev.Data)
	}
	eventually(t, "the item is at 100 %", func() bool { return r.get(id).Progress.Percent == 100 })
	if it := must(r.c.Get(r.ctx, id))(t); it.State != events.StateRunning {
		t.Errorf("it is %s", it.State)
	}
	close(finish)
	r.wait(id, events.StateCompleted)
	if n := strings.Count(strings.Join(r.kinds(id), " "), "progressed"); n > 3 {
		t.Errorf("%d reports of progress: they were not throttled", n)
	}
	cancel()
	<-tailed
	r.verify()
}

func TestCancelOfAParentCancelsWhatIsBelow(t *testing.T) {
	r := inMemory(t, "")
	ended := make(chan error, 2)
	running := make(chan struct{}, 2)
	r.worker(workers.Config{Concurrency: 8}, "node", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if depth := string(it.Raw); depth < "2" {
			next := depth[0] - '0' + 1
			return workers.Spawn(workers.Child{Type: "node", Params: next}, workers.Child{Type: "node", Params: next}), nil
		}
		running <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	})
	root := r.submit(streamwright.Item{Type: "node", Params: 0})
	for range 2 {
		recv(t, "a leaf runs", running)
	}
	state, wasRunning, err := r.c.Cancel(r.ctx, root, "enough")
	if err != nil || state != events.StateCancelled || wasRunning {
		t.Fatalf("cancelled: %s, %v, %v", state, wasRunning, err)
	}
	for range 2 {
		if cause := recv(t, "the end of a leaf's context", ended); !errors.Is(cause, workers.ErrCancelled) {
			t.Errorf("a leaf's context ended with %v", cause)
		}
	}
	eventually(t, "all is cancelled", func() bool { return r.ended(root) })
	r.verify()
}

func TestWaitOnAMergedItem(t *testing.T) {
	r := onDisk(t, "")
	g := newGate()
	first := r.submit(streamwright.Item{Type: "once", DedupKey: "k"})
	second := must(r.c.Submit(r.ctx, streamwright.Item{Type: "once", DedupKey: "k"}))(t)
	if second.State != events.StateMerged || second.MergedInto != first {
		t.Fatalf("the second is %+v", second)
	}
	waited := func() chan streamwright.WorkItem {
		c := r.client()
		out := make(chan streamwright.WorkItem, 1)
		go func() {
			defer c.Close()
			it, _ := c.Wait(r.ctx, second.ID)
			out <- it
		}()
		return out
	}
	before := waited()
	r.worker(workers.Config{}, "once", g.run)
	recv(t, "the first runs", g.begun)
	close(g.open)
	for _, ch := range []chan streamwright.WorkItem{before, waited()} {
		if it := recv(t, "the outcome of the first", ch); it.ID != first || it.State != events.StateCompleted || string(it.Result) != `"attempt 1"` {
			t.Errorf("the wait on the merged item gave %+v", it)
		}
	}
}

// A wait on a merged item outlives the engine.
func TestWaitOnAMergedItemOverARestart(t *testing.T) {
	s := serve(t, "[types.once]\ncapacity = 1\n")
	first := s.submit(streamwright.Item{Type: "once", DedupKey: "k"})
	second := s.submit(streamwright.Item{Type: "once", DedupKey: "k"})
	out := make(chan streamwright.WorkItem, 1)
	c := s.c // that of before the restart
	go func() {
		it, _ := c.Wait(s.ctx, second)
		out <- it
	}()
	s.p.kill()
	s.begin()
	s.connect()
	begin(t, s.url(), "work", "once", "--", "cat")
	if it := recv(t, "the outcome", out); it.ID != first || it.State != events.StateCompleted {
		t.Errorf("got %+v", it)
	}
}

// A child process's checkpoint outlives its worker.
func TestCheckpointSurvivesAKilledWorker(t *testing.T) {
	t.Parallel()
	s := serve(t, `
[types.steps]
lease = "1s"
backoff = {initial = "10ms", max = "20ms"}
`)
	script := `
if [ -z "$WORK_CHECKPOINT" ]; then
  echo '{"progress":50,"message":"half way"}' >&3
  echo '{"checkpoint":{"step":7}}' >&3
  sleep 1000
fi
echo "$WORK_CHECKPOINT"`
	p := begin(t, s.url(), "work", "steps", "--", "sh", "-c", script)
	id := s.submit(streamwright.Item{Type: "steps"})
	eventually(t, "the checkpoint is saved", func() bool { return s.get(id).HasCheckpoint })
	if p := s.get(id).Progress; p == nil || p.Percent != 50 || p.Message != "half way" {
		t.Errorf("progress %+v", p)
	}
	cli(t, s.url(), "show", id).wants(t, 0, "50 %  half way", "checkpoint")
	p.kill()
	begin(t, s.url(), "work", "steps", "--", "sh", "-c", script)
	it := s.wait(id, events.StateCompleted)
	if string(it.Result) != `{"step":7}` || it.Attempt != 2 {
		t.Errorf("the second attempt (%d) was given %s", it.Attempt, it.Result)
	}
	cli(t, s.url(), "history", id).wants(t, 0, "checkpointed", "progressed", "percent=50")
	s.verify()
}

// A shell script spawns, and goes on with what its children have made.
func TestSpawnFromAShellScript(t *testing.T) {
	s := serve(t, `
[types.book]
exec = ["sh", "-c", '''
if [ -z "${WORK_CHILDREN+set}" ]; then
  echo '{"spawn":{"children":[{"type":"page","params":1},{"type":"page","params":2,"priority":9},{"type":"page","params":0}],"continuation":"bind","child_policy":"continue"}}' >&3
  exit 0
fi
echo "$WORK_CONTINUATION $WORK_CHILDREN" >&2
tr -d " \n" < "$WORK_CHILDREN"
''']
[types.page]
max_attempts = 1
exec = ["sh", "-c", 'read n; if [ $n = 0 ]; then exit 65; fi; echo $((n * 10))']
[types.soon]
exec = ["sh", "-c", 'if [ ! -e "$0" ]; then touch "$0"; echo "{\"snooze\":\"10ms\"}" >&3; exit 0; fi; rm "$0"; echo done', "`+t.TempDir()+`/seen"]
[types.broken]
exec = ["sh", "-c", 'echo "{\"spawn\":{\"kids\":[]}}" >&3']
`)
	id := s.submit(streamwright.Item{Type: "book"})
	it := s.wait(id, events.StateCompleted)
	var children []workers.ChildOutcome
	fromJSON(t, it.Result, &children)
	if len(children) != 3 || string(children[0].Result) != "10" || string(children[1].Result) != "20" || children[2].State != events.StateDead {
		t.Fatalf("the continuation was given %s", it.Result)
	}
	out := cli(t, s.url(), "show", id).wants(t, 0, "← this", "├─ "+children[0].ID.String(), "└─ "+children[2].ID.String(), "bind")
	if n := strings.Count(out.out, "completed"); n < 3 {
		t.Errorf("the tree shows %d completed:\n%s", n, out.out)
	}
	cli(t, s.url(), "show", children[1].ID.String()).wants(t, 0, id, "└─ "+children[1].ID.String()+"  page  completed  ← this")
	cli(t, s.url(), "history", id).wants(t, 0, "spawned", "children=["+children[0].ID.String(), "continuation=bind")
	logs := cli(t, s.url(), "logs", id).wants(t, 0, "bind ")
	path := strings.Fields(logs.out[strings.Index(logs.out, "bind "):])[1]
	cli(t, s.url(), "list", "--json").wants(t, 0)
	if exists(path) {
		t.Errorf("the file %s was left behind", path)
	}

	soon := s.submit(streamwright.Item{Type: "soon", MaxAttempts: 1})
	if it := s.wait(soon, events.StateCompleted); string(it.Result) != `"done"` {
		t.Errorf("got %s", it.Result)
	}
	broken := s.submit(streamwright.Item{Type: "broken"})
	if it := s.wait(broken, events.StateDead); it.Error.Code != "bad_report" || it.Attempt != 1 {
		t.Errorf("a spawn that can't be read: %+v", it.Error)
	}
	cli(t, s.url(), "logs", broken).wants(t, 0, "counts for nothing", "kids")
	s.verify()
}

// The command line says what an item comes after, and when it expires.
func TestFlowFlags(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	first := s.submit(streamwright.Item{Type: "a"})
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	out := cli(t, s.url(), "submit", "b", "--after", first, "--after-policy", "run", "--dedup-key", "k", "--dedup-policy", "defer", "--dedup-window", "1h", "--expires-at", at.Format(time.RFC3339), "--json").wants(t, 0)
	var sub streamwright.Submitted
	fromJSON(t, []byte(out.out), &sub)
	it := s.get(sub.ID)
	if it.State != events.StateWaiting || !slices.Equal(it.Waits, []string{first}) || it.DedupWindow != events.Millis(3_600_000) || !it.ExpiresAt.Equal(at) {
		t.Errorf("got %+v", it)
	}
	if got := s.get(first); got.Awaited != 1 {
		t.Errorf("the first is awaited by %d", got.Awaited)
	}
	cli(t, s.url(), "show", sub.ID).wants(t, 0, "waits for", first, "expires", "dedup window")
	cli(t, s.url(), "list").wants(t, 0, "for 1 to end")
	cli(t, s.url(), "submit", "b", "--after", "x").wants(t, 2, "--after")
	soon := must(s.c.Submit(s.ctx, streamwright.Item{Type: "c", ExpiresAt: time.Now().Add(2 * time.Second)}))(t)
	if it := s.wait(soon.ID, events.StateCancelled); it.Reason != "expired" {
		t.Errorf("its reason is %q", it.Reason)
	}
	s.verify()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
