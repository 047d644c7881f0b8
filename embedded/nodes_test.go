package embedded

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// A node that was killed can be removed, also if the leader has never heard of it, since it
// began to lead when that node was dead: such a one is not marked as offline.
func TestOnline(t *testing.T) {
	for name, c := range map[string]struct {
		offline, current bool
		active           time.Duration
		want             bool
	}{
		"just heard":       {false, true, time.Second, true},
		"catching up":      {false, false, time.Second, true},
		"heard right now":  {false, true, 0, true},
		"silent":           {false, true, time.Minute, false},
		"never heard":      {false, false, 0, false},
		"has said goodbye": {true, true, time.Second, false},
	} {
		if got := online(c.offline, c.current, c.active); got != c.want {
			t.Errorf("%s: online is %t", name, got)
		}
	}
}

// The view of a cluster follows what happens to it: a leadership that is handed on, a
// node that stops, one that is taken out, and the loss of the quorum.
func TestCluster(t *testing.T) {
	need.Seconds(t)
	t.Parallel()
	e, others := startCluster(t)
	ctx, c := testContext(t), e.cluster()
	events := e.names().EventStream(0)
	nodes := func() []NodeState {
		nc, err := e.srv.connectAs(e.srv.system)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nodes, err := metaNodes(ctx, nc)
		if err != nil {
			return nil
		}
		return nodes
	}
	need.Eventually(t, "three current nodes", func() bool {
		all := nodes()
		return len(all) == 3 && !slices.ContainsFunc(all, func(n NodeState) bool { return !n.Online || !n.Current })
	})
	need.Eventually(t, "three current replicas of the event stream", func() bool {
		s := c.stream(ctx, events)
		return s.Wanted == 3 && len(s.Replicas) == 3 && !slices.ContainsFunc(s.Replicas, func(n NodeState) bool { return !n.Online || !n.Current })
	})
	for _, to := range []string{"n2", "n1", "n3", "n1"} {
		if err := c.HandLog(ctx, to); err != nil {
			t.Fatal(err)
		}
		need.Eventually(t, "the view of "+to, func() bool { // the server itself hears of it a little later
			return e.srv.leadsLog(e.names()) == (to == "n1")
		})
	}
	if err := c.Hand(ctx, events, "n9"); err == nil {
		t.Error("a node that is not there has the event stream")
	}
	if err := c.HandLog(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(ctx, "n3"); err == nil {
		t.Error("a node that is online was removed")
	}

	others[1].stop(t) // n3
	need.Eventually(t, "n3 to be offline", func() bool {
		return slices.ContainsFunc(nodes(), func(n NodeState) bool { return n.Name == "n3" && !n.Online })
	})
	if err := c.Quorum(ctx); err != nil {
		t.Errorf("two of three: %v", err)
	}
	if err := c.Remove(ctx, "n3"); err != nil {
		t.Fatal(err)
	}
	need.Eventually(t, "n3 to be out", func() bool { return len(nodes()) == 2 })

	others[0].stop(t) // n2
	need.Eventually(t, "the quorum to be gone", func() bool { return errors.Is(c.Quorum(ctx), ErrNoQuorum) })
	need.Eventually(t, "the idle owner to say so", func() bool { return e.faces.service.Health().Status == wire.AlarmCutOff })
}
