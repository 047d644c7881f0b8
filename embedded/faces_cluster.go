package embedded

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/wire"
)

const (
	// replicasFor is how long what is known of the streams' replicas is kept, and
	// replicasWithin bounds one look at them.
	replicasFor    = 2 * time.Second
	replicasWithin = time.Second
	// lateReplica is the number of batches that a server lacks when it is called
	// behind. Under load each lacks a few.
	lateReplica = 1000
)

// clusterFace says, to the API, what this process knows of its node and of the servers
// that hold the log.
type clusterFace struct {
	e        *Engine
	settings string

	mu      sync.Mutex // held while the servers are asked
	at      time.Time
	streams []wire.StreamReplicas
}

func newClusterFace(e *Engine) *clusterFace { return &clusterFace{e: e, settings: e.cfg.Digest()} }

// node adds what this process knows of its node. It asks nobody.
func (f *clusterFace) node(n *wire.Node) {
	n.Settings = f.settings
	if n.TookOverFrom != "" && f.e.lease != nil {
		n.TookOverBecause = f.e.lease.beat.Went(n.TookOverFrom)
	}
	if f.e.srv.member() != nil {
		n.LeadsLog = f.e.srv.ns().JetStreamIsStreamLeader(f.e.names().Account(), f.e.names().EventStream(0))
	}
}

// look returns what says how the servers are; nil if nobody else can reach the log.
func (f *clusterFace) look() func(context.Context) api.Cluster {
	if f.e.lease == nil {
		return nil
	}
	return f.cluster
}

func (f *clusterFace) cluster(ctx context.Context) api.Cluster {
	c := api.Cluster{Streams: f.replicas(ctx)}
	if m := f.e.srv.member(); m != nil {
		c.Name, c.Nodes = m.cluster, f.e.srv.nodes()
	}
	return c
}

// nodes returns the names of the cluster's nodes, sorted: of those that vote about its
// streams, and of those that have a link to this one.
func (s *server) nodes() []string {
	names := append(s.linked(), s.member().node)
	if g, ok := s.group(metaGroup); ok {
		for _, p := range g.Peers {
			if p.Name != "" {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// replicas says where the streams with primary data are. A stream that was known and
// does not answer has no leader.
func (f *clusterFace) replicas(ctx context.Context) []wire.StreamReplicas {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) < replicasFor {
		return f.streams
	}
	names := f.e.names()
	js, err := connect.JetStream(f.e.nc, names)
	if err != nil {
		return f.streams
	}
	ctx, cancel := context.WithTimeout(ctx, replicasWithin)
	defer cancel()
	of := []string{names.EventStream(0), names.IntakeStream(), names.LogStream(), blobs.Stream(names)}
	found := make([]*wire.StreamReplicas, len(of))
	var asked sync.WaitGroup
	for i, name := range of {
		asked.Go(func() { found[i] = f.replicasOf(ctx, js, name) })
	}
	asked.Wait()
	f.at, f.streams = time.Now(), nil
	for _, r := range found {
		if r != nil {
			f.streams = append(f.streams, *r)
		}
	}
	return f.streams
}

// replicasOf asks where a stream is; nil if that is one server alone, or not known.
// REQUIRES: mu.
func (f *clusterFace) replicasOf(ctx context.Context, js jetstream.JetStream, name string) *wire.StreamReplicas {
	s, err := js.Stream(ctx, name)
	if err != nil {
		i := slices.IndexFunc(f.streams, func(r wire.StreamReplicas) bool { return r.Stream == name })
		if i < 0 {
			return nil
		}
		return &wire.StreamReplicas{Stream: name, Replicas: f.streams[i].Replicas, Spare: -1}
	}
	return replicasIn(s.CachedInfo())
}

func replicasIn(info *jetstream.StreamInfo) *wire.StreamReplicas {
	c := info.Cluster
	if c == nil {
		return nil
	}
	r := &wire.StreamReplicas{Stream: info.Config.Name, Leader: c.Leader, Replicas: info.Config.Replicas}
	if c.Leader == "" && r.Replicas > 1 { // whoever answers does not know how the others are
		r.Spare = -1
		return r
	}
	good := 1
	for _, p := range c.Replicas {
		if p.Offline || p.Active > seenWithin || !p.Current && (p.Active == 0 || p.Lag > lateReplica) { // 0: this leader has never heard of it
			r.Behind = append(r.Behind, p.Name)
		} else {
			good++
		}
	}
	slices.Sort(r.Behind)
	r.Spare = good - (r.Replicas/2 + 1)
	return r
}

// remover returns what takes a dead node out of the cluster; nil without one.
func (f *clusterFace) remover() func(context.Context, string) error {
	if !f.e.cfg.Cluster.On() {
		return nil
	}
	return f.e.Cluster().Remove
}
