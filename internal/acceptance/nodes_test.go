package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// Any node says how all of them are: the one that owns the log, the others and their
// settings, and who has taken over from whom.
func TestNodes(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.start(0)
	p.says(0, 1, "engine ready")
	p.p[1] = begin(t, p.url, "serve", "--nats-url", p.url, "--dir", p.dir[1], "--http", p.http[1], "--durability", "interval")
	p.says(1, 1, "standing by")
	p.says(1, 1, "engine ready")

	first := p.nodes(2)
	byHTTP := func(of []streamwright.Node, i int) streamwright.Node {
		for _, n := range of {
			if n.HTTP == p.http[i] {
				return n
			}
		}
		t.Fatalf("no node listens on %s: %+v", p.http[i], of)
		return streamwright.Node{}
	}
	owner, standby := byHTTP(first.Nodes, 0), byHTTP(first.Nodes, 1)
	if owner.Role != wire.RoleOwner || owner.Epoch != 1 || owner.SettingsDiffer || owner.Recovering || owner.Since.IsZero() || first.Owner != owner.Node {
		t.Errorf("the owner is %+v", owner)
	}
	if standby.Role != wire.RoleStandby || standby.Owner != owner.Node || !standby.SettingsDiffer || standby.Epoch != 0 {
		t.Errorf("the standby is %+v", standby)
	}
	if text := strings.Join(first.Warnings, "\n"); !strings.Contains(text, "the settings of "+standby.Node) {
		t.Errorf("the warnings are %q", first.Warnings)
	}
	out := p.run("status")
	if !strings.Contains(out, "  node ") || !strings.Contains(out, "owner "+owner.Node) || strings.Contains(out, "epoch 0") {
		t.Errorf("status says:\n%s", out)
	}
	if out := p.run("cluster"); !strings.Contains(out, "the log is owned by "+owner.Node) || !strings.Contains(out, "owner (epoch 1)") || !strings.Contains(out, "AT RISK: the settings of") {
		t.Errorf("cluster says:\n%s", out)
	}
	for _, n := range first.Nodes {
		if proof, err := p.c.Engine().VerifyNode(context.Background(), n.Node, nil); err != nil || !proof.Equal || proof.Node != n.Node {
			t.Errorf("verify %s: %+v, %v", n.Node, proof, err)
		}
	}
	if _, err := p.c.Engine().VerifyNode(context.Background(), "nobody", nil); !errors.Is(err, streamwright.ErrNotFound) {
		t.Errorf("verify a node that is not there: %v", err)
	}

	p.p[0].kill()
	p.says(1, 1, owns)
	var second streamwright.Nodes
	eventually(t, "the standby shows as the owner", func() bool {
		var err error
		second, err = p.c.Engine().Nodes(context.Background())
		return err == nil && second.Owner == standby.Node && !byHTTP(second.Nodes, 1).Recovering
	})
	if n := byHTTP(second.Nodes, 1); n.Epoch != 2 || n.TookOverFrom != owner.Node || n.TookOverBecause != wire.TakeoverSilent || n.SettingsDiffer || n.Since.Before(standby.Since) {
		t.Errorf("the new owner is %+v", n)
	}
	if _, body := p.get(1, "/metrics"); !strings.Contains(body, "streamwright_takeovers_total 1\n") || !strings.Contains(body, `streamwright_node_role{role="owner"} 1`) || !strings.Contains(body, `streamwright_node_took_over{because="silent"} 1`) {
		t.Error("the metrics lack the takeover")
	}
}

// nodes returns what the engines answer, once n of them do.
func (p *pair) nodes(n int) (r streamwright.Nodes) {
	p.t.Helper()
	eventually(p.t, "the nodes answer", func() bool {
		var err error
		r, err = p.c.Engine().Nodes(context.Background())
		return err == nil && len(r.Nodes) == n
	})
	return r
}

// run runs a command, which must succeed, and returns what it prints.
func (p *pair) run(args ...string) string {
	p.t.Helper()
	need.NoRace(p.t, "the engine is another process, which runs without it")
	c := begin(p.t, p.url, args...)
	if code := c.ended(); code != 0 {
		p.t.Fatalf("%q: exit code %d\n%s", args, code, c.log)
	}
	return c.log.String()
}
