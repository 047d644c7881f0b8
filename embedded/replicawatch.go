package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/embedded/replicas"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

const (
	// replicasEvery is the time between two reads of a node's own replicas, and replicasRate
	// what they read in a second, in bytes, at most.
	replicasEvery = 24 * time.Hour
	replicasRate  = 16 << 20
	// replicasSoon is when a node that has come back reads them again: until then it has
	// cut off and caught up what the others decided meanwhile.
	replicasSoon = time.Minute
	// replicasLook is the time between two looks whether they are to be read, and whether
	// a damaged one can be replaced.
	replicasLook = 2 * time.Second
	// firstRead is when a server that lacks something, or has no leader, is read none the less.
	firstRead = 10 * time.Second
	// lackEvery is the time between two looks at what a server lacks: one that has started
	// lately, or that lacks something. Any other is looked at every listedFor.
	lackEvery = time.Second
	newServer = 2 * time.Minute
	listedFor = 30 * time.Second
	// A look asks lackLooks times, every lackLook, whether a stream is current.
	lackLooks = 10
	lackLook  = 20 * time.Millisecond
)

// replicaWatch reads the replicas on this node's own disk through: when its server has started,
// when it hears of a leader again, a minute after either, and once a day. Those that are damaged
// it replaces from the others.
type replicaWatch struct {
	*base
	lease  *lease
	others func() []*lease    // of the other namespaces that run here
	cancel context.CancelFunc // nil: nothing is read
	ended  sync.WaitGroup

	replacedAt time.Time // run's

	mu    sync.Mutex // guards what follows
	found api.ReplicasRead
	of    *natsserver.Server // the server that full is about
	full  map[string]bool    // the streams that it has had in full
}

// own reports whether there are replicas of its own to read.
func (w *replicaWatch) own() bool { return w.srv != nil && w.dir != nil }

// start begins to read the replicas.
func (w *replicaWatch) start() {
	if !w.own() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.mu.Lock()
	w.found.Alone = w.srv.member() == nil
	w.mu.Unlock()
	w.ended.Go(func() { w.follow(ctx) })
	w.ended.Go(func() { w.run(ctx) })
}

// stop ends that. It may be called again.
func (w *replicaWatch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.ended.Wait()
	}
}

func (w *replicaWatch) run(ctx context.Context) {
	every, soon := replicasEvery, replicasSoon
	if again := w.o.replicasAgain; again != 0 {
		every, soon = again, again
	}
	var of, now *natsserver.Server // whose replicas were read; which runs
	var since time.Time
	next, led := time.Now().Add(every), false
	for ctx.Err() == nil {
		if w.srv.ns() != now {
			now, since = w.srv.ns(), time.Now()
		}
		leads := w.complete() && (w.srv.member() == nil || w.srv.hasLeader())
		returned := leads && !led || now != of && time.Since(since) > firstRead
		led = leads
		if returned || !time.Now().Before(next) {
			whole := w.read(ctx, leads)
			if ctx.Err() != nil {
				return
			}
			of, next = now, time.Now().Add(every)
			if returned || !whole {
				next = time.Now().Add(soon)
			}
		}
		w.replaceDamaged(ctx)
		_ = sleep.For(ctx, min(replicasLook, every))
	}
}

// follow looks again and again which streams the server has not had in full.
func (w *replicaWatch) follow(ctx context.Context) {
	var of *natsserver.Server
	var begun, listed time.Time
	for ctx.Err() == nil {
		if now := w.srv.ns(); now != of {
			of, begun = now, time.Now()
		}
		if time.Since(begun) < newServer || time.Since(listed) > listedFor || len(w.seen().Copying) > 0 {
			w.look(ctx)
			listed = time.Now()
		}
		_ = sleep.For(ctx, lackEvery)
	}
}

// look finds the streams that this node's server has not caught up with since it started. Their
// leaders can't tell: they remember what it had stored before.
func (w *replicaWatch) look(ctx context.Context) {
	now := w.srv.ns()
	full := map[string]bool{}
	w.mu.Lock()
	if now == w.of {
		full = maps.Clone(w.full)
	} else {
		w.found.At = time.Time{} // another server read that
	}
	w.mu.Unlock()
	var listed, lacking []string
	for range lackLooks { // a stream that is written to is current from time to time
		listed, lacking = nil, nil
		for _, st := range w.srv.ownStreams(w.names()) {
			alone := w.srv.member() == nil || st.Config.Replicas <= 1
			current := alone || st.Cluster != nil && st.Cluster.Leader != "" && now.JetStreamIsStreamCurrent(w.names().Account(), st.Name)
			full[st.Name] = full[st.Name] || current
			if listed = append(listed, st.Name); !full[st.Name] {
				lacking = append(lacking, st.Name)
			}
		}
		if len(lacking) == 0 || sleep.For(ctx, lackLook) != nil {
			break
		}
	}
	if ctx.Err() != nil || w.srv.ns() != now {
		return // half of it is about another server
	}
	maps.DeleteFunc(full, func(stream string, _ bool) bool { return !slices.Contains(listed, stream) })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of, w.full, w.found.Copying = now, full, lacking
}

// complete reports whether the server is known to lack no stream.
func (w *replicaWatch) complete() bool {
	now := w.srv.ns()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of == now && len(w.found.Copying) == 0
}

// hasAll reports whether the server has had all of some streams since it started.
func (w *replicaWatch) hasAll(streams []string) bool {
	now := w.srv.ns()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of == now && !slices.ContainsFunc(streams, func(stream string) bool { return !w.full[stream] })
}

// read reads all replicas, and reports whether all could be read to their end, and are complete.
// Without a leader among the nodes there may be more of them.
func (w *replicaWatch) read(ctx context.Context, led bool) bool {
	var streams []string
	whole := true
	for _, st := range w.srv.ownStreams(w.names()) {
		name := st.Name
		r, err := replicas.Reader{
			Dir: w.srv.streamDir(w.names(), name), Stream: name, Rate: replicasRate, Gapless: w.names().IsEvents(name),
			State: func() (replicas.State, bool) { return w.srv.streamState(w.names(), name) },
		}.Read(ctx)
		if ctx.Err() != nil {
			return false
		}
		streams = append(streams, name)
		if err != nil { // which says nothing of what the files hold
			w.log.Warn("this node's replica of a stream can't be read: trying again later", "stream", name, "error", err)
			whole = false
			continue
		}
		w.note(name, r)
	}
	whole = whole && w.hasAll(streams)
	w.mu.Lock()
	defer w.mu.Unlock()
	if led && whole && len(streams) > 0 {
		w.found.At = time.Now().UTC().Truncate(time.Millisecond)
	}
	w.found.Streams = streams
	w.found.Damaged = slices.DeleteFunc(w.found.Damaged, func(d wire.DamagedReplica) bool { return !slices.Contains(streams, d.Stream) })
	return whole
}

// note keeps what was found in a replica, and logs what is new.
func (w *replicaWatch) note(stream string, r replicas.Replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.found.Damaged) // others may have the old one
	at := slices.IndexFunc(all, func(d wire.DamagedReplica) bool { return d.Stream == stream })
	switch {
	case r.Damage == "" && at >= 0:
		all = slices.Delete(all, at, at+1)
		w.log.Info("this node's replica of a stream is whole again", "stream", stream, "messages", r.Messages)
	case r.Damage != "" && at >= 0:
		all[at].Damage = r.Damage
	case r.Damage != "":
		d := wire.DamagedReplica{Stream: stream, Damage: r.Damage, Since: r.At.UTC().Truncate(time.Millisecond), Repair: w.advice()}
		all = append(all, d)
		w.log.Error("this node's replica of a stream is damaged", "stream", stream, "damage", d.Damage, "repair", d.Repair)
	}
	w.found.Damaged = all
	if !slices.Contains(w.found.Streams, stream) {
		w.found.Streams = append(slices.Clone(w.found.Streams), stream)
	}
}

// advice says what to do about a damaged replica.
func (w *replicaWatch) advice() string {
	if w.srv.member() == nil {
		return "there is no other replica to replace it from: see that the disk is sound, make a backup of what can be read (engine backup), and restore the last good one into an empty folder (engine restore)"
	}
	return "it will be replaced from the others"
}

// reads returns what says what was found, as a namespace may know it; nil: nothing is read.
func (w *replicaWatch) reads(names wire.Names) func() api.ReplicasRead {
	if !w.own() {
		return nil
	}
	return func() api.ReplicasRead { return w.seenIn(names) }
}

// seenIn returns what was found in the streams of a namespace. The default one, whose operator
// has the servers, is told of all.
func (w *replicaWatch) seenIn(names wire.Names) api.ReplicasRead {
	found := w.seen()
	if names.InNamespace() != events.DefaultNamespace {
		found.Streams = slices.DeleteFunc(slices.Clone(found.Streams), func(stream string) bool { return !names.OwnsAlone(stream) })
		found.Damaged = slices.DeleteFunc(slices.Clone(found.Damaged), func(d wire.DamagedReplica) bool { return !names.OwnsAlone(d.Stream) })
	}
	return found
}

func (w *replicaWatch) seen() api.ReplicasRead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}

// node adds what was found to what a node says of itself in a namespace: of what it copies, the
// streams of that one.
func (w *replicaWatch) node(n *wire.Node, names wire.Names) {
	found := w.seenIn(names)
	n.ReplicasRead, n.Damaged = found.At, found.Damaged
	n.Copying = slices.DeleteFunc(slices.Clone(found.Copying), func(stream string) bool { return !names.OwnsAlone(stream) })
}

// streamDir returns the folder of a stream.
func (s *server) streamDir(names wire.Names, stream string) string {
	return filepath.Join(s.streamsDir(names), stream)
}

// streamsDir returns the folder of an account's streams; empty: there is none.
func (s *server) streamsDir(names wire.Names) string {
	if s == nil || s.given.Dir == "" {
		return ""
	}
	return filepath.Join(s.given.Dir, "jetstream", names.Account(), "streams")
}

// ownStreams returns the engine's streams of which this server has a replica on its disk. It
// asks nobody.
func (s *server) ownStreams(names wire.Names) (own []natsserver.StreamDetail) {
	all, err := s.ns().Jsz(&natsserver.JSzOptions{Account: names.Account(), Streams: true, Config: true, RaftGroups: true})
	if err != nil {
		return nil
	}
	for _, a := range all.AccountDetails {
		for _, st := range a.Streams {
			if st.Config != nil && st.Config.Storage == natsserver.FileStorage && names.Owns(st.Name) {
				own = append(own, st)
			}
		}
	}
	slices.SortFunc(own, func(a, b natsserver.StreamDetail) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// streamState says what the server has of a stream; false: none of it.
func (s *server) streamState(names wire.Names, stream string) (replicas.State, bool) {
	all := s.ownStreams(names)
	i := slices.IndexFunc(all, func(st natsserver.StreamDetail) bool { return st.Name == stream })
	if i < 0 {
		return replicas.State{}, false
	}
	st := all[i].State
	state := replicas.State{First: st.FirstSeq, Last: st.LastSeq, Messages: st.Msgs}
	if st.Lost != nil {
		state.Lost = len(st.Lost.Msgs)
	}
	return state, true
}

const (
	// replaceWithin bounds the questions before a replica is replaced.
	replaceWithin = 30 * time.Second
	// copiedLook is the time between two looks whether a replaced replica has what the leader
	// has, and copiedWithin bounds the wait for that.
	copiedLook   = 500 * time.Millisecond
	copiedWithin = time.Hour
	// replaceRest is the time between two restarts of the server to replace replicas: a disk
	// that damages what is written to it must not have it restarted all the time.
	replaceRest = time.Hour
	// beingReplaced says what becomes of a replica while it is replaced.
	beingReplaced = "it is being replaced from the others"
)

// replaceDamaged replaces the damaged replicas of this node by copies of the leaders', once
// most of the servers of each have it whole and current. Until then it says what is lacking.
func (w *replicaWatch) replaceDamaged(ctx context.Context) {
	found := w.seen()
	if len(found.Damaged) == 0 || found.Alone || w.lease.working.Load() == nil {
		return
	}
	if again := w.replacedAt.Add(replaceRest); !w.replacedAt.IsZero() && time.Now().Before(again) {
		w.becomes(fmt.Sprintf("replicas of this node were replaced at %s: see that its disk is sound; this one can be from %s on", w.replacedAt.UTC().Format(time.RFC3339), again.UTC().Format(time.RFC3339)))
		return
	}
	var streams []string
	for _, d := range found.Damaged {
		streams = append(streams, d.Stream)
	}
	if err := w.replace(ctx, streams); err != nil && ctx.Err() == nil {
		w.becomes(fmt.Sprintf("it can't be replaced from the others now: %v; if this lasts, docs/operate/CLUSTER.md says what to do", err))
		return
	}
	for end := time.Now().Add(copiedWithin); !w.hasAll(streams) && time.Now().Before(end) && ctx.Err() == nil; {
		_ = sleep.For(ctx, copiedLook)
	}
}

// replace drops the replicas of some streams while the server is down. It first gives
// away whatever this node leads of them; then the leaders bring it what it lacks.
func (w *replicaWatch) replace(ctx context.Context, streams []string) error {
	to, err := w.mayReplace(ctx, streams)
	if err != nil {
		return err
	}
	for _, l := range append(w.others(), w.lease) {
		if l.owns.Load() {
			if err := w.handOn(ctx, l); err != nil {
				return err
			}
		}
	}
	for _, stream := range streams {
		if !w.srv.ns().JetStreamIsStreamLeader(w.names().Account(), stream) {
			continue
		}
		if err := w.cluster().Hand(ctx, stream, to[stream]); err != nil {
			return err
		}
	}
	if _, err := w.mayReplace(ctx, streams); err != nil { // that took a while
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.becomes(beingReplaced)
	w.mu.Lock()
	w.found.At, w.found.Copying = time.Time{}, streams // before others hear of it again
	w.mu.Unlock()
	w.replacedAt = time.Now()
	w.log.Warn("this node's NATS server is restarted without its damaged replicas, which the others replace", "streams", strings.Join(streams, ","))
	own := slices.DeleteFunc(w.srv.ownStreams(w.names()), func(st natsserver.StreamDetail) bool { return !slices.Contains(streams, st.Name) })
	return w.srv.restartAfter(func() (err error) {
		for _, st := range own {
			err = errors.Join(err, w.srv.dropReplica(w.names(), st))
		}
		return err
	})
}

// handOn has another node own a log that this one owns.
func (w *replicaWatch) handOn(ctx context.Context, l *lease) error {
	ns, heir := l.namespaceName(), l.chooseHeir(ctx)
	if heir == "" {
		return fmt.Errorf("this node owns the log of the namespace %s, and no other can", ns)
	}
	w.log.Warn("this node owns a log, and replaces its damaged replicas: handing the log over", "namespace", string(ns), "to", heir)
	l.handOver(ctx, heir)
	if !l.handOn(ctx, heir, wire.TakeoverHandedOver) {
		return fmt.Errorf("this node owns the log of the namespace %s, and %s has not taken it over", ns, heir)
	}
	return nil
}

// mayReplace returns a node for each of the streams that may lead it; or why this node can't
// replace them now.
func (w *replicaWatch) mayReplace(ctx context.Context, streams []string) (to map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	var states []StreamState
	for _, st := range w.srv.ownStreams(w.names()) {
		states = append(states, w.cluster().stream(ctx, st.Name))
	}
	r, err := w.lease.allNodes(ctx)
	if err != nil {
		return nil, err
	}
	return judgeReplace(w.nodeName(), streams, states, r.Nodes)
}

// judgeReplace says who may lead the damaged streams while a node replaces its replicas of them,
// or why it must not. All its streams must live without it for a while; of the damaged ones most
// of the servers must have read theirs, and found them whole. Of several nodes with damaged
// replicas the first by name begins.
func judgeReplace(me string, damaged []string, streams []StreamState, nodes []wire.Node) (to map[string]string, err error) {
	to = map[string]string{}
	for _, n := range nodes {
		if n.Online && n.Node < me && len(n.Damaged) > 0 {
			return nil, fmt.Errorf("node %s replaces its own first", n.Node)
		}
	}
	// A node has read its replicas only once it had all that their leaders have.
	whole := func(node, stream string) bool {
		return slices.ContainsFunc(nodes, func(n wire.Node) bool {
			return n.Node == node && n.Online && !n.ReplicasRead.IsZero() && !slices.Contains(n.Copying, stream) && !slices.ContainsFunc(n.Damaged, func(d wire.DamagedReplica) bool { return d.Stream == stream })
		})
	}
	for _, s := range streams {
		is := slices.Contains(damaged, s.Stream)
		switch {
		case s.Error != "":
			return nil, errors.New(s.Error)
		case s.Wanted <= 1 && is:
			return nil, fmt.Errorf("stream %s is on this node alone", s.Stream)
		case s.Wanted <= 1:
			continue
		case s.Leader == "":
			return nil, fmt.Errorf("stream %s has no leader", s.Stream)
		}
		good := 0
		for _, r := range s.Replicas {
			if r.Name == me || !r.Online || !r.Current || !whole(r.Name, s.Stream) {
				continue
			}
			good++
			if to[s.Stream] == "" || r.Leader {
				to[s.Stream] = r.Name
			}
		}
		if need := s.Wanted/2 + 1; good < need {
			return nil, fmt.Errorf("%d of the other servers of stream %s are known to be whole and current, and %d must be", good, s.Stream, need)
		}
	}
	for _, d := range damaged {
		if to[d] == "" {
			return nil, fmt.Errorf("nothing is known of stream %s", d)
		}
	}
	return to, nil
}

// becomes notes what becomes of the damaged replicas.
func (w *replicaWatch) becomes(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.found.Damaged)
	for i := range all {
		if all[i].Repair != what {
			w.log.Warn("a damaged replica", "stream", all[i].Stream, "repair", what)
		}
		all[i].Repair = what
	}
	w.found.Damaged = all
}

// dropReplica removes what a server that does not run has of a stream: first what its raft group
// has decided, so that it never takes itself for one that knows the stream. How it voted
// stays. When it runs again it has an empty log, and its vote makes no leader of a server that
// has less than the others.
func (s *server) dropReplica(names wire.Names, st natsserver.StreamDetail) error {
	if st.RaftGroup == "" || filepath.Base(st.RaftGroup) != st.RaftGroup {
		return fmt.Errorf("drop the replica of %s: its raft group is not known", st.Name)
	}
	raft, stream := filepath.Join(s.given.Dir, "jetstream", systemAccount, "_js_", st.RaftGroup), s.streamDir(names, st.Name)
	if _, err := os.Stat(raft); err != nil {
		return fmt.Errorf("drop the replica of %s: %w", st.Name, err)
	}
	for _, dir := range []string{filepath.Join(raft, "snapshots"), filepath.Join(raft, "msgs"), filepath.Join(stream, "msgs")} {
		err := os.RemoveAll(dir)
		if err == nil {
			err = syncDir(filepath.Dir(dir))
		}
		if err != nil {
			return fmt.Errorf("drop the replica of %s: %w", st.Name, err)
		}
	}
	return nil
}
