package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/kvstate"
)

// clusterReplicas is the number of replicas on a cluster when none is set.
const clusterReplicas = 3

// copies says how the engine's streams are kept.
type copies struct {
	replicas  int      // of streams with primary data, and of the lease
	placement []string // tags of the servers that hold them; none: any
	several   bool     // the servers are a cluster
}

// copiesWithin bounds the questions to an existing NATS about its streams.
const copiesWithin = 10 * time.Second

// findCopies finds out how many replicas the streams have: those that are set; else
// those of the event stream that is there; else three where the servers allow it.
func (b *base) findCopies(ctx context.Context) error {
	c := b.cfg.Cluster
	b.copies = copies{replicas: max(c.Replicas, 1), placement: c.Placement}
	if m := b.srv.member(); m != nil {
		b.copies.several = true
		if b.copies.replicas = c.Replicas; c.Replicas == 0 {
			b.copies.replicas = clusterReplicas
		}
		if n := len(m.nodes); b.copies.replicas > n {
			return fmt.Errorf("cluster.replicas is %d, and the cluster has %d nodes: set it to %d or less", c.Replicas, n, n)
		}
		return nil
	}
	if b.srv != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, copiesWithin)
	defer cancel()
	js, err := connect.JetStream(b.nc, b.names())
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, b.names().EventStream(0))
	switch {
	case err == nil:
		b.copies.several = onCluster(s.CachedInfo())
		have := s.CachedInfo().Config.Replicas
		if c.Replicas == 0 {
			b.copies.replicas = max(have, 1)
		}
		if b.copies.several && b.copies.replicas == 1 && c.Replicas == 0 {
			b.log.Warn("the event stream has one replica on a cluster of servers: set cluster.replicas = 3 to survive the loss of one", "stream", b.names().EventStream(0))
		}
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return b.tryCopies(ctx, js)
	}
	return b.outside.denied.explain(fmt.Errorf("look at the event stream %s: %w", b.names().EventStream(0), err))
}

// tryCopies makes the first stream, that of the lease, with as many replicas as are
// set, or as the servers allow.
func (b *base) tryCopies(ctx context.Context, js jetstream.JetStream) error {
	tries := []int{clusterReplicas, 1}
	if n := b.cfg.Cluster.Replicas; n != 0 {
		tries = []int{n}
	}
	var err error
	for _, n := range tries {
		var info *jetstream.StreamInfo
		info, err = kvstate.NewPartitions(js, b.names(), b.cfg.Cluster.Lease).Replicate(n, b.copies.placement).Make(ctx)
		if err == nil {
			b.copies.replicas, b.copies.several = n, onCluster(info)
			return nil
		}
		var api *jetstream.APIError
		if !errors.As(err, &api) {
			break
		}
	}
	return fmt.Errorf("make the first stream: %w: see that cluster.replicas and cluster.placement fit the servers", err)
}

// onCluster reports whether a stream is on a cluster of servers.
func onCluster(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && info.Cluster.Name != ""
}
