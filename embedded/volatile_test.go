package embedded

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/dispatcher/natsio"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A new owner makes the streams in memory anew at its own server, whether the old server
// lives or not, under names of their own. An owner that does not know yet that it is none
// any more leaves them alone.
func TestVolatileStreamsFollowTheOwner(t *testing.T) {
	need.Seconds(t)
	nodes := startNodes(t, clusterOptions(t, 3))
	ctx := testContext(t)
	number := func() uint64 { return 0 }
	lives := map[wire.Life]bool{}
	owner := func(n *node) (top *natsio.Topology, took time.Duration) {
		t.Helper()
		js, err := connect.JetStream(n.nc, n.names())
		if err != nil {
			t.Fatal(err)
		}
		top = natsio.NewTopology(natsio.Config{
			Conn: n.nc, JS: js, Names: n.names(), Logger: slog.New(slog.DiscardHandler), Replicas: 3, Several: true, Node: n.copies.node,
			IntakeMaxBytes: 1 << 20, MaxRunning: 100, Answered: number, Read: number, Epoch: number, DispatchLost: func() {}, AckLost: func() {},
		})
		began := time.Now()
		need.Eventually(t, "the streams are there", func() bool { // a takeover tries again, too
			one, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			return top.TakeOver(one) == nil
		})
		took = time.Since(began)
		for _, name := range []string{n.names().DispatchStream(), n.names().LeaseStream()} {
			if s := n.Cluster().stream(ctx, name); s.Leader != n.copies.node {
				t.Errorf("%s is at %q, want %s", name, s.Leader, n.copies.node)
			}
		}
		if lives[top.Life()] || top.Life() == "" {
			t.Errorf("%s made the dispatch stream of life %q", n.copies.node, top.Life())
		}
		lives[top.Life()] = true
		return top, took
	}
	first, took := owner(nodes[0])
	t.Logf("made in %s", took)
	second, took := owner(nodes[1])
	t.Logf("taken from a server that lives in %s", took)

	before := first.Life()
	if err := first.EnsureStreams(ctx); err != nil {
		t.Error(err)
	}
	js, err := connect.JetStream(nodes[0].nc, nodes[0].names())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, nodes[0].names().DispatchStream())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.CachedInfo().Config.Subjects[0], second.Life().RunAll(nodes[0].names()); got != want || first.Life() != before {
		t.Errorf("the stream has %s, want %s; the first owner's life is %q, want %q", got, want, first.Life(), before)
	}

	// One that lost the contest for the log, but was the last to make the stream.
	need.Eventually(t, "the first owner has made the dispatch stream anew", func() bool {
		if err := first.EnsureStreams(ctx); err != nil {
			t.Error(err)
		}
		return first.Life() != before
	})
	if s, err = js.Stream(ctx, nodes[0].names().DispatchStream()); err != nil {
		t.Fatal(err)
	}
	if got, want := s.CachedInfo().Config.Subjects[0], first.Life().RunAll(nodes[0].names()); got != want || lives[first.Life()] {
		t.Errorf("the stream has %s, want %s, a new life", got, want)
	}

	nodes[1].stop(t)
	need.Eventually(t, "a quorum without n2", func() bool { return nodes[2].served(ctx) })
	_, took = owner(nodes[2])
	t.Logf("taken from a server that is gone in %s", took)
}
