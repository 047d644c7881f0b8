package embedded

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/embedded/replicas"
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
)

// replicaWatch reads the replicas on this node's own disk through: when its server has started,
// when it hears of a leader again, a minute after either, and once a day. Those that are damaged
// it replaces from the others.
type replicaWatch struct {
	*base
	lease  *lease
	cancel context.CancelFunc // nil: nothing is read
	ended  sync.WaitGroup

	replacedAt time.Time // run's

	mu    sync.Mutex // guards what follows
	found api.ReplicasRead
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
	var of *natsserver.Server // whose replicas were read
	var next time.Time
	led := false
	for ctx.Err() == nil {
		now, leads := w.srv.ns(), w.srv.member() == nil || w.srv.hasLeader()
		returned := now != of || leads && !led
		led = leads
		if returned || !time.Now().Before(next) {
			if !w.read(ctx, leads) {
				return
			}
			of, next = now, time.Now().Add(every)
			if returned {
				next = time.Now().Add(soon)
			}
		}
		w.replaceDamaged(ctx)
		_ = sleep.For(ctx, min(replicasLook, every))
	}
}

// read reads all replicas, and reports whether it came to their end. Without a leader among the
// nodes there may be more of them.
func (w *replicaWatch) read(ctx context.Context, led bool) bool {
	var streams []string
	for _, st := range w.srv.ownStreams(w.names()) {
		name := st.Name
		r, err := replicas.Reader{
			Dir: w.srv.streamDir(w.names(), name), Stream: name, Rate: replicasRate, Gapless: strings.HasPrefix(name, strings.TrimSuffix(w.names().EventStream(0), "0")),
			State: func() (replicas.State, bool) { return w.srv.streamState(w.names(), name) },
		}.Read(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			r.Damage = err.Error()
		}
		streams = append(streams, name)
		w.note(name, r)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if led && len(streams) > 0 {
		w.found.At = time.Now().UTC().Truncate(time.Millisecond)
	}
	w.found.Streams = streams
	w.found.Damaged = slices.DeleteFunc(w.found.Damaged, func(d wire.DamagedReplica) bool { return !slices.Contains(streams, d.Stream) })
	return true
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

// reads returns what says what was found; nil: nothing is read.
func (w *replicaWatch) reads() func() api.ReplicasRead {
	if !w.own() {
		return nil
	}
	return w.seen
}

func (w *replicaWatch) seen() api.ReplicasRead {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}

// node adds what was found to what a node says of itself.
func (w *replicaWatch) node(n *wire.Node) {
	found := w.seen()
	n.ReplicasRead, n.Damaged = found.At, found.Damaged
}

// streamDir returns the folder of a stream.
func (s *server) streamDir(names wire.Names, stream string) string {
	return filepath.Join(s.given.Dir, "jetstream", names.Account(), "streams", stream)
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
