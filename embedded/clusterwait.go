package embedded

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/streamwright/streamwright/connect"
)

const (
	// quorumLook is the time between two looks for a quorum, and quorumTell that
	// between two lines about one that is not there yet.
	quorumLook = 100 * time.Millisecond
	quorumTell = 5 * time.Second
	// quorumAsk bounds one question to a leader.
	quorumAsk = 500 * time.Millisecond
	// dialPeer bounds one look whether a peer's address answers.
	dialPeer = time.Second
)

// awaitQuorum returns when this node's cluster has a leader, which takes most of its
// nodes. Meanwhile it logs, each few seconds, which nodes it waits for. It ends with
// ctx.
func (b *base) awaitQuorum(ctx context.Context) error {
	m := b.srv.member()
	if m == nil {
		return nil
	}
	look := time.NewTicker(quorumLook)
	defer look.Stop()
	told, logged := 0, time.Now()
	for !b.served(ctx) {
		here := len(b.srv.linked()) + 1
		if here != told && b.o.WaitingForNodes != nil {
			b.o.WaitingForNodes(m.cluster, here, len(m.nodes))
		}
		if here != told || time.Since(logged) > quorumTell {
			b.logWaiting(ctx, m)
			told, logged = here, time.Now()
		}
		if why := b.srv.fault(); why != "" {
			return fmt.Errorf("join the cluster %s: the NATS server of this node does not work: %s", m.cluster, why)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("join the cluster %s: %d of %d nodes are here, and there is no leader: start the others, and see that they reach each other: %w", m.cluster, here, len(m.nodes), ctx.Err())
		case <-look.C:
		}
	}
	b.does("its NATS servers are asked for the streams")
	if told > 0 {
		b.log.Info("the nodes of the cluster have a leader", "cluster", m.cluster, "node", m.node)
	}
	return nil
}

// served reports whether the cluster has a leader that answers. One that has just been
// elected may drop requests without a word, so each try is short.
func (b *base) served(ctx context.Context) bool {
	if !b.srv.hasLeader() {
		return false
	}
	js, err := connect.JetStream(b.nc, b.names())
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, quorumAsk)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err == nil
}

// logWaiting says which nodes are here, and which addresses don't answer.
func (b *base) logWaiting(ctx context.Context, m *membership) {
	var silent []string
	here := b.srv.linked()
	if len(here)+1 < len(m.nodes) {
		silent = m.silent(ctx)
	}
	b.waitsForNodes(here, len(m.nodes), silent)
	b.log.Info("waiting for the other nodes of the cluster", "cluster", m.cluster, "node", m.node, "here", len(here)+1, "of", len(m.nodes),
		"linked", strings.Join(here, ","), "no_answer", strings.Join(silent, ","))
}

// silent returns the addresses of nodes at which nothing answers.
func (m *membership) silent(ctx context.Context) (addrs []string) {
	var d net.Dialer
	for _, addr := range m.nodes {
		if addr == m.own {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, dialPeer)
		conn, err := d.DialContext(ctx, "tcp", addr)
		cancel()
		if err != nil {
			addrs = append(addrs, addr)
			continue
		}
		conn.Close()
	}
	return addrs
}

// member returns the server's place in its cluster; nil if it stands alone.
func (s *server) member() *membership {
	if s == nil {
		return nil
	}
	return s.given.Member
}

// linked returns the names of the other nodes that this one has a link to, sorted.
func (s *server) linked() (names []string) {
	routes, err := s.ns().Routez(nil)
	if err != nil {
		return nil
	}
	for _, r := range routes.Routes {
		if r.RemoteName != "" && !slices.Contains(names, r.RemoteName) {
			names = append(names, r.RemoteName)
		}
	}
	slices.Sort(names)
	return names
}

// hasLeader reports whether this node knows a leader of the cluster's metadata.
func (s *server) hasLeader() bool {
	g, ok := s.group(metaGroup)
	return ok && g.Leader != ""
}
