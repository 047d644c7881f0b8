package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

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
	for end := time.Now().Add(copiedWithin); !w.copied(ctx, streams) && time.Now().Before(end) && ctx.Err() == nil; {
		_ = sleep.For(ctx, copiedLook)
	}
}

// replace drops the replicas of some streams while the server is down. It first gives
// away whatever this node leads of them; then the leaders bring it what it lacks.
func (w *replicaWatch) replace(ctx context.Context, streams []string) error {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	to, err := w.mayReplace(ctx, streams)
	if err != nil {
		return err
	}
	if w.lease.owns.Load() {
		heir := w.lease.chooseHeir(ctx)
		if heir == "" {
			return errors.New("this node owns the log, and no other can")
		}
		w.log.Warn("this node owns the log, and replaces its damaged replicas: handing the log over", "to", heir)
		w.lease.handOver(ctx, heir)
		if !w.lease.handOn(ctx, heir, wire.TakeoverHandedOver) {
			return fmt.Errorf("this node owns the log, and %s has not taken it over", heir)
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

// mayReplace returns a node for each of the streams that may lead it; or why this node can't
// replace them now.
func (w *replicaWatch) mayReplace(ctx context.Context, streams []string) (to map[string]string, err error) {
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
	whole := func(node, stream string) bool {
		return slices.ContainsFunc(nodes, func(n wire.Node) bool {
			return n.Node == node && n.Online && !n.ReplicasRead.IsZero() && !slices.ContainsFunc(n.Damaged, func(d wire.DamagedReplica) bool { return d.Stream == stream })
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
			if r.Name == me || !r.Online || !r.Current || is && !whole(r.Name, s.Stream) {
				continue
			}
			good++
			if to[s.Stream] == "" || r.Leader {
				to[s.Stream] = r.Name
			}
		}
		if need := s.Wanted/2 + 1; good < need {
			what := "current"
			if is {
				what = "whole and current"
			}
			return nil, fmt.Errorf("%d of the other servers of stream %s are known to be %s, and %d must be", good, s.Stream, what, need)
		}
	}
	for _, d := range damaged {
		if to[d] == "" {
			return nil, fmt.Errorf("nothing is known of stream %s", d)
		}
	}
	return to, nil
}

// copied reports whether this node has what the leaders of the streams have.
func (w *replicaWatch) copied(ctx context.Context, streams []string) bool {
	for _, stream := range streams {
		s := w.cluster().stream(ctx, stream)
		if !slices.ContainsFunc(s.Replicas, func(r NodeState) bool { return r.Name == w.nodeName() && r.Online && r.Current }) {
			return false
		}
	}
	return true
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
