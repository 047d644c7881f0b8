package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
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
	*base
	lease    *lease
	watch    *replicaWatch
	settings string
	link     atomic.Pointer[link] // nil: there is none yet

	mu      sync.Mutex // held while the servers are asked
	at      time.Time
	streams []wire.StreamReplicas
	lacking map[string]time.Time // a leader, since then, by stream
}

// link is the NATS server of this process, nil for an existing one, and the connection to it.
type link struct {
	srv *server
	nc  *nats.Conn
}

// node adds what this process knows of its node. It asks nobody.
func (f *clusterFace) node(n *wire.Node) {
	n.Settings = f.settings
	f.watch.node(n, f.names())
	if n.TookOverFrom != "" && f.lease.shared() {
		n.TookOverBecause = cmp.Or(f.lease.beat.Because(f.nodeName()), wire.TakeoverSilent)
	}
	if l := f.link.Load(); l != nil && l.srv.member() != nil {
		n.LeadsLog = l.srv.ns().JetStreamIsStreamLeader(f.names().Account(), f.names().EventStream(0))
	}
}

// look returns what says how the servers are; nil if nobody else can reach the log.
func (f *clusterFace) look() func(context.Context) api.Cluster {
	if !f.lease.shared() {
		return nil
	}
	return f.cluster
}

func (f *clusterFace) cluster(ctx context.Context) api.Cluster {
	l := f.link.Load()
	if l == nil {
		return api.Cluster{Name: f.cfg.Cluster.Name}
	}
	c := api.Cluster{Streams: f.replicas(ctx, l)}
	if m := l.srv.member(); m != nil {
		c.Name, c.Nodes = m.cluster, l.srv.nodes()
		if !l.srv.hasLeader() {
			c.Warnings = append(c.Warnings, l.srv.noLeader())
		}
	}
	return c
}

// noLeader says that the nodes have no leader among them, as far as this one knows.
func (s *server) noLeader() string {
	m, here := s.member(), s.linked()
	if n := len(here) + 1; n <= len(m.nodes)/2 {
		return fmt.Sprintf("the cluster %s has no leader: %d of its %d nodes are linked to %s (%s), and most of them must be: start the others, or see that they reach each other", m.cluster, n-1, len(m.nodes), m.node, cmp.Or(strings.Join(here, ", "), "none"))
	}
	return fmt.Sprintf("the cluster %s has no leader yet: its nodes choose one within seconds", m.cluster)
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
func (f *clusterFace) replicas(ctx context.Context, l *link) []wire.StreamReplicas {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) < replicasFor {
		return f.streams
	}
	names := f.names()
	js, err := connect.JetStream(l.nc, names)
	if err != nil {
		return f.streams
	}
	here := l.srv.streams(names.Account())
	ctx, cancel := context.WithTimeout(ctx, replicasWithin)
	defer cancel()
	of := []string{names.EventStream(0), names.IntakeStream(), names.LogStream(), names.OutputStream(), blobs.Stream(names)}
	found := make([]*wire.StreamReplicas, len(of))
	var asked sync.WaitGroup
	for i, name := range of {
		asked.Go(func() { found[i] = f.replicasOf(ctx, js, name, here[name]) })
	}
	asked.Wait()
	f.at, f.streams = time.Now(), nil
	for i, r := range found {
		if r == nil || r.Leader != "" || r.Spare >= 0 {
			delete(f.lacking, of[i])
		} else if f.lacking[of[i]].IsZero() {
			f.lacking[of[i]] = f.at.UTC().Truncate(time.Millisecond)
		}
		if r != nil {
			r.LeaderlessSince = f.lacking[of[i]]
			f.streams = append(f.streams, *r)
		}
	}
	return f.streams
}

// replicasOf asks where a stream is; nil if that is one server alone, or not known. here is the
// number of replicas of a stream of which this node has one, else 0.
// REQUIRES: mu.
func (f *clusterFace) replicasOf(ctx context.Context, js jetstream.JetStream, name string, here int) *wire.StreamReplicas {
	s, err := js.Stream(ctx, name)
	if err != nil {
		if i := slices.IndexFunc(f.streams, func(r wire.StreamReplicas) bool { return r.Stream == name }); i >= 0 {
			here = f.streams[i].Replicas
		}
		if here == 0 || errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		return &wire.StreamReplicas{Stream: name, Replicas: here, Spare: -1}
	}
	return replicasIn(s.CachedInfo())
}

// streams returns the number of replicas of each stream of which this node of a cluster has one.
// It asks nobody.
func (s *server) streams(account string) map[string]int {
	if s.member() == nil {
		return nil
	}
	all, err := s.ns().Jsz(&natsserver.JSzOptions{Account: account, Streams: true, Config: true})
	if err != nil {
		return nil
	}
	here := map[string]int{}
	for _, a := range all.AccountDetails {
		for _, st := range a.Streams {
			if st.Config != nil {
				here[st.Name] = st.Config.Replicas
			}
		}
	}
	return here
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
		if !online(p.Offline, p.Current, p.Active) || !p.Current && p.Lag > lateReplica {
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
	if !f.cfg.Cluster.On() {
		return nil
	}
	return (&Cluster{f.base}).Remove
}
