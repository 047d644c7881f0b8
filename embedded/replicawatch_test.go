package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/embedded/replicas"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// hole writes zeros amid the first block of a node's replica of a stream, and returns a function
// that takes them back.
func hole(t *testing.T, dir, stream string) (mend func()) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	at, old := info.Size()/3, make([]byte, 200)
	if _, err := f.ReadAt(old, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, len(old)), at); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt(old, at)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An engine that stands alone finds damage in its log, raises the alarm everywhere, and takes it
// back once the log is whole.
func TestADamagedLogIsAnAlarm(t *testing.T) {
	ctx := testContext(t)
	o := secured(t, quiet(t.TempDir()))
	o.HTTP, o.replicasAgain, o.Config.HTTP.AllowOpen = "127.0.0.1:0", 10*time.Millisecond, true
	e := mustStart(t, o)
	c := mustClient(t, e)
	for range 50 {
		if _, err := c.Submit(ctx, streamwright.Item{Type: "t", Params: strings.Repeat("x", 100)}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(what string, damaged bool) {
		t.Helper()
		need.Eventually(t, what, func() bool {
			return (len(e.faces.replicas.seen().Damaged) > 0) == damaged && !e.faces.replicas.seen().At.IsZero()
		})
	}
	find("it was read", false)
	stream := e.names().EventStream(0)
	mend := hole(t, e.Dir(), stream)
	find("the damage", true)

	st, err := c.Engine().Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Alarms) != 1 || st.Alarms[0].Code != wire.AlarmReplica || st.Alarms[0].Severity != wire.AlarmCritical || !strings.Contains(st.Alarms[0].Message, stream) || !strings.Contains(st.Alarms[0].Action, "engine restore") {
		t.Errorf("alarms %+v", st.Alarms)
	}
	nodes, err := c.Engine().Nodes(ctx)
	if err != nil || len(nodes.Warnings) != 1 || !strings.Contains(nodes.Warnings[0], "is damaged: block 1: ") || len(nodes.Nodes[0].Damaged) != 1 || nodes.Nodes[0].ReplicasRead.IsZero() {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	status, body := fetchPage(t, e, "/healthz")
	var h api.Health
	if err := json.Unmarshal([]byte(body), &h); err != nil || status != http.StatusOK || len(h.Warnings) != 1 || !strings.Contains(h.Warnings[0], stream) {
		t.Errorf("/healthz: %d %s", status, body)
	}
	if _, body := fetchPage(t, e, "/metrics"); !strings.Contains(body, `streamwright_replicas_damaged{stream="`+stream+`"} 1`) || !strings.Contains(body, `streamwright_alarm{code="replica_damaged",severity="critical"} 1`) || !strings.Contains(body, `streamwright_replicas_damaged{stream="OBJ_work_blobs"} 0`) || !strings.Contains(body, "streamwright_replicas_read_seconds 1") {
		t.Errorf("/metrics: %s", body)
	}
	mend()
	find("it is whole", false)
	if st, err := c.Engine().Stats(ctx); err != nil || len(st.Alarms) != 0 {
		t.Errorf("alarms %+v, %v", st.Alarms, err)
	}
}

// A damaged replica, of the owner or of a standby, is replaced from the others while work goes
// on. Then all replicas are whole, and nothing is lost.
func TestADamagedReplicaIsReplaced(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	ctx := testContext(t)
	owner, others, c := startThree(t, func(o *Options) { o.replicasAgain = 100 * time.Millisecond })
	all := append([]*Engine{owner}, others...)
	whole := func(what string) {
		t.Helper()
		need.Eventually(t, what, func() bool {
			return !slices.ContainsFunc(all, func(e *Engine) bool { r := e.faces.replicas.seen(); return r.At.IsZero() || len(r.Damaged) > 0 })
		})
	}
	whole("all have read their replicas")

	var sent []string
	var load sync.WaitGroup
	loading, end := context.WithCancel(ctx)
	defer end()
	load.Go(func() {
		for loading.Err() == nil {
			if s, err := c.Submit(loading, streamwright.Item{Type: "t", Params: strings.Repeat("x", 200)}); err == nil {
				sent = append(sent, s.ID)
			}
		}
	})
	for i, damaged := range []*Engine{others[0], owner} {
		stream := owner.names().EventStream(0)
		need.Eventually(t, "something to damage", func() bool {
			st, ok := damaged.srv.streamState(damaged.names(), stream)
			return ok && st.Messages > uint64(100*(i+1))
		})
		before := damaged.srv.ns()
		hole(t, damaged.Dir(), stream)
		need.Eventually(t, "the alarm", func() bool {
			r, err := c.Engine().Nodes(ctx)
			return err == nil && strings.Contains(strings.Join(r.Warnings, "\n"), "the replica of "+stream+" on "+damaged.nodeName()+" is damaged: block 1")
		})
		need.Eventually(t, "its server is started again", func() bool { return damaged.srv.ns() != before })
		whole("all replicas are whole")
		t.Logf("replaced that of %s", damaged.nodeName())
	}
	end()
	load.Wait()
	if len(sent) == 0 {
		t.Fatal("nothing was accepted")
	}
	need.Eventually(t, "the stores have it all", func() bool {
		for _, e := range all {
			if e.ledger.store.Applied() < owner.decider.dispatcher.Position() {
				return false
			}
		}
		return true
	})
	for _, id := range sent {
		if _, err := c.Get(ctx, id); err != nil {
			t.Errorf("item %s of %d: %v", id, len(sent), err)
		}
	}
	same(t, owner.names().EventStream(0), all)
}

// A node whose replica is replaced says so until it has it all, although the leader, whose log is
// quiet, takes it for current at once: else another node would replace its own from it.
func TestAReplacedReplicaIsCopiedFirst(t *testing.T) {
	slow(t)
	t.Parallel()
	owner, others, c := startThree(t, func(o *Options) { o.replicasAgain = 50 * time.Millisecond })
	all, stream := append([]*Engine{owner}, others...), owner.names().EventStream(0)
	for range 400 {
		if _, err := c.Submit(testContext(t), streamwright.Item{Type: "t", Params: strings.Repeat("x", 60_000)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() bool {
		return !slices.ContainsFunc(all, func(e *Engine) bool {
			r := e.faces.replicas.seen()
			return r.At.IsZero() || len(r.Damaged) > 0 || len(r.Copying) > 0
		})
	}
	need.Eventually(t, "all have read their replicas", read)
	damaged := others[0]
	before := damaged.srv.ns()
	had, _ := damaged.srv.streamState(damaged.names(), stream)
	hole(t, damaged.Dir(), stream)
	need.Eventually(t, "its server is started again", func() bool { return damaged.srv.ns() != before })
	if copiedFirst(t, damaged, stream, had) == 0 {
		t.Error("it was never seen without all")
	}
	need.Eventually(t, "all replicas are whole", read)
	same(t, owner.names().EventStream(0), all)
}

// So does a node that comes back with an empty folder.
func TestANodeWithoutItsFolderIsCopiedFirst(t *testing.T) {
	slow(t)
	t.Parallel()
	all := clusterOptions(t, 3)
	for i := range all {
		all[i].replicasAgain = 50 * time.Millisecond
	}
	engines := startEngines(t, all...)
	c, stream := mustClient(t, engines[0]), engines[0].names().EventStream(0)
	for range 400 {
		if _, err := c.Submit(testContext(t), streamwright.Item{Type: "t", Params: strings.Repeat("x", 60_000)}); err != nil {
			t.Fatal(err)
		}
	}
	need.Eventually(t, "all have it", func() bool {
		return !slices.ContainsFunc(engines, func(e *Engine) bool { return e.faces.replicas.seen().At.IsZero() })
	})
	had, _ := engines[0].srv.streamState(engines[0].names(), stream)
	stopEngine(t, engines[2])
	if err := os.RemoveAll(all[2].Dir); err != nil {
		t.Fatal(err)
	}
	e := startEngines(t, all[2])[0]
	copiedFirst(t, e, stream, had)
	same(t, stream, []*Engine{engines[0], engines[1], e})
}

// copiedFirst checks that a node that copies a stream does not say that it has read its replicas
// before it has what the others had. It returns how often it was seen without.
func copiedFirst(t *testing.T, copies *Engine, stream string, had replicas.State) (less int) {
	t.Helper()
	for {
		now := copies.faces.replicas.seen()
		st, _ := copies.srv.streamState(copies.names(), stream)
		if st.Last < had.Last {
			less++
		}
		if !now.At.IsZero() && len(now.Damaged) == 0 {
			if st, _ = copies.srv.streamState(copies.names(), stream); st.Last < had.Last {
				t.Errorf("it says that it has read its replicas, and has %+v of %+v", st, had)
			}
			return less
		}
		if t.Context().Err() != nil {
			t.Fatal("it was not copied")
		}
		time.Sleep(time.Millisecond)
	}
}

// A node that replaces a replica first hands on all logs that it owns, those of other namespaces
// too.
func TestADamagedReplicaOfANamespaceIsReplaced(t *testing.T) {
	slow(t)
	t.Parallel()
	owner, others, _ := startThree(t, func(o *Options) { o.replicasAgain = 100 * time.Millisecond })
	all := append([]*Engine{owner}, others...)
	addNamespaces(t, owner, "acme")
	for _, e := range all {
		awaitNamespace(t, e, "acme")
	}
	c := inNamespace(t, owner, "acme")
	for i := range 120 {
		if _, err := c.Submit(testContext(t), streamwright.Item{Type: "t", Params: i}); err != nil {
			t.Fatal(err)
		}
	}
	damaged := all[ownerOf(all, "acme")]
	stream := damaged.names().Namespace("acme").EventStream(0)
	need.Eventually(t, "all have read their replicas", func() bool {
		return !slices.ContainsFunc(all, func(e *Engine) bool {
			r := e.faces.replicas.seen()
			return len(r.Damaged) > 0 || !slices.Contains(r.Streams, stream)
		})
	})
	before := damaged.srv.ns()
	hole(t, damaged.Dir(), stream)
	need.Eventually(t, "another node owns it", func() bool { at := ownerOf(all, "acme"); return at >= 0 && all[at] != damaged })
	need.Eventually(t, "its server is started again", func() bool { return damaged.srv.ns() != before })
	need.Eventually(t, "all replicas are whole", func() bool {
		return !slices.ContainsFunc(all, func(e *Engine) bool { return len(e.faces.replicas.seen().Damaged) > 0 })
	})
	for _, e := range all {
		need.Eventually(t, "acme is what its log says on "+e.nodeName(), func() bool {
			p, err := inNamespace(t, e, "acme").Engine().VerifyNode(testContext(t), e.nodeName(), nil)
			return err == nil && p.Equal && p.Events > 120
		})
	}
}

// same checks that the nodes' replicas of a stream hold the same.
func same(t *testing.T, stream string, all []*Engine) {
	t.Helper()
	need.Eventually(t, "all replicas of the log hold the same", func() bool {
		var states []string
		for _, e := range all {
			r, err := replicas.Reader{Dir: e.srv.streamDir(e.names(), stream), Stream: stream, Gapless: true}.Read(t.Context())
			st, ok := e.srv.streamState(e.names(), stream)
			if err != nil || !ok || r.Damage != "" {
				t.Errorf("%s: %+v, %v", e.nodeName(), r, err)
			}
			states = append(states, fmt.Sprint(st, r.Messages))
		}
		return states[0] == states[1] && states[1] == states[2]
	})
}

// A namespace is told of its own replicas, the default one of all.
func TestReplicasOfANamespace(t *testing.T) {
	root, acme := wire.Default, wire.Default.Namespace("acme")
	both := []string{root.EventStream(0), acme.EventStream(0)}
	w := &replicaWatch{}
	for _, stream := range both {
		w.found.Streams = append(w.found.Streams, stream)
		w.found.Damaged = append(w.found.Damaged, wire.DamagedReplica{Stream: stream})
	}
	for names, want := range map[wire.Names][]string{root: both, acme: both[1:], wire.Default.Namespace("acm"): nil} {
		found, damaged := w.seenIn(names), []string(nil)
		for _, d := range found.Damaged {
			damaged = append(damaged, d.Stream)
		}
		if !slices.Equal(found.Streams, want) || !slices.Equal(damaged, want) {
			t.Errorf("%s is told of %v, of which %v are damaged; want %v", names.InNamespace(), found.Streams, damaged, want)
		}
	}
	if !slices.Equal(w.found.Streams, both) {
		t.Error("what was found has changed")
	}
}

// A replica is replaced only while most of the servers have it whole, and all streams can do
// without this node.
func TestJudgeReplace(t *testing.T) {
	read := func(name string, damaged ...string) wire.Node {
		n := wire.Node{Node: name, Online: true, ReplicasRead: time.Unix(1, 0)}
		for _, s := range damaged {
			n.Damaged = append(n.Damaged, wire.DamagedReplica{Stream: s})
		}
		return n
	}
	on := func(stream, leader string, current ...string) StreamState {
		s := StreamState{Stream: stream, Leader: leader, Wanted: 3}
		for _, n := range []string{"a", "b", "c"} {
			s.Replicas = append(s.Replicas, NodeState{Name: n, Leader: n == leader, Online: true, Current: slices.Contains(current, n)})
		}
		return s
	}
	copying := func(n wire.Node, streams ...string) wire.Node {
		n.Copying = streams
		return n
	}
	well := []wire.Node{read("a"), read("b", "S"), read("c")}
	for name, c := range map[string]struct {
		streams []StreamState
		nodes   []wire.Node
		why     string
	}{
		"well":                     {[]StreamState{on("S", "a", "a", "c"), on("T", "b", "a", "b", "c")}, well, ""},
		"another is behind":        {[]StreamState{on("S", "a", "a")}, well, "1 of the other servers of stream S are known to be whole and current, and 2 must be"},
		"another is damaged":       {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a"), read("b", "S"), read("c", "S")}, "1 of the other servers"},
		"another has not read":     {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a"), read("b", "S"), {Node: "c", Online: true}}, "1 of the other servers"},
		"another copies":           {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a"), read("b", "S"), copying(read("c"), "S")}, "1 of the other servers of stream S are known to be whole and current"},
		"another copies another":   {[]StreamState{on("S", "a", "a", "c"), on("T", "b", "a", "b", "c")}, []wire.Node{read("a"), read("b", "S"), copying(read("c"), "T")}, "1 of the other servers of stream T"},
		"another is gone":          {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a"), read("b", "S"), {Node: "c"}}, "1 of the other servers"},
		"another stream needs it":  {[]StreamState{on("S", "a", "a", "c"), on("T", "b", "b", "c")}, well, "1 of the other servers of stream T are known to be whole and current"},
		"no leader":                {[]StreamState{on("S", "", "a", "c")}, well, "stream S has no leader"},
		"no answer":                {[]StreamState{{Stream: "S", Error: "silence"}}, well, "silence"},
		"alone":                    {[]StreamState{{Stream: "S", Wanted: 1, Leader: "b"}}, well, "on this node alone"},
		"unknown":                  {nil, well, "nothing is known of stream S"},
		"another goes first":       {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a", "T"), read("b", "S"), read("c")}, "node a replaces its own first"},
		"it goes before the other": {[]StreamState{on("S", "a", "a", "c")}, []wire.Node{read("a"), read("b", "S"), read("c", "T")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := judgeReplace("b", []string{"S"}, c.streams, c.nodes)
			if c.why == "" && (err != nil || to["S"] != "a") || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
				t.Errorf("%v, %v; want %q", to, err, c.why)
			}
		})
	}
}

// A node whose replicas are damaged again soon after they were replaced does not restart its server
// for them, and says why.
func TestReplacedOnceAnHour(t *testing.T) {
	b := newBase(Options{})
	w := &replicaWatch{base: b, lease: &lease{base: b}, replacedAt: time.Now().Add(-replaceRest / 2)}
	w.lease.working.Store(&dispatcher.Dispatcher{})
	w.found.Damaged = []wire.DamagedReplica{{Stream: "S"}}
	w.replaceDamaged(t.Context()) // it would panic without a server
	if d := w.seen().Damaged; len(d) != 1 || !strings.Contains(d[0].Repair, "see that its disk is sound") {
		t.Errorf("%+v", d)
	}
}

// A replica is not dropped whose raft group is not known, or not there.
func TestDropReplicaNeedsItsGroup(t *testing.T) {
	dir := t.TempDir()
	s := &server{given: serverOptions{Dir: dir}}
	names := wire.WithPrefix("work")
	block := filepath.Join(s.streamDir(names, "S"), "msgs", "1.blk")
	if err := os.MkdirAll(filepath.Dir(block), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(block, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"", "../../WORK", "S-R3F-none"} {
		if err := s.dropReplica(names, natsserver.StreamDetail{Name: "S", RaftGroup: group}); err == nil {
			t.Errorf("group %q: it was dropped", group)
		}
	}
	if _, err := os.Stat(block); err != nil {
		t.Error(err)
	}
}

// fetchPage gets a path from an engine's HTTP server.
func fetchPage(t *testing.T, e *Engine, path string) (status int, body string) {
	t.Helper()
	r, err := http.Get(e.HTTPURL() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}
