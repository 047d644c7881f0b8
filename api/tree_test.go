package api

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

func TestTreeRequests(t *testing.T) {
	r := newRig(t, nil)
	sub := r.submit(wire.Submit{Type: "email"})
	id := sub.ID
	got := ask[wire.TreeReply](r, wire.APITree, wire.Tree{ID: id, MinPosition: sub.Position})
	if got.Root.ID != id || got.Root.State != events.StateQueued || got.Nodes != 0 || len(got.Path) != 0 || got.Root.Truncated {
		t.Errorf("a tree of one: %+v", got)
	}
	for name, c := range map[string]struct {
		req  wire.Tree
		code events.Code
	}{
		"no id":      {wire.Tree{}, events.CodeBadID},
		"unknown":    {wire.Tree{ID: "01JD3V6YB2M4C9W8ZK5T7QXRNE"}, events.CodeNotFound},
		"depth":      {wire.Tree{ID: id, Depth: MaxTreeDepth + 1}, events.CodeBadRequest},
		"no depth":   {wire.Tree{ID: id, Depth: -1}, events.CodeBadRequest},
		"limit":      {wire.Tree{ID: id, Limit: MaxTreeNodes + 1}, events.CodeBadRequest},
		"a position": {wire.Tree{ID: id, MinPosition: "x"}, events.CodeBadRequest},
	} {
		_, err := try[wire.TreeReply](r, wire.APITree, c.req)
		t.Run(name, func(t *testing.T) { wantCode(t, err, c.code) })
	}
}

// A spawn is checked before it waits for the engine; one that is refused leaves
// the run as it is, and the others of its request are decided.
func TestSpawnThatIsRefused(t *testing.T) {
	r := newRig(t, nil)
	id := r.submit(wire.Submit{Type: "email"}).ID
	reg := ask[wire.Registered](r, wire.APIRegister, wire.Register{Pull: true, Worker: "w1", Session: "s1", Types: []string{"email"}, Slots: 5})
	msg := r.pull(reg.Stream, reg.Consumers["email"][0])
	report := func(event string) wire.Report {
		return wire.Report{ID: id, Token: msg.Header.Get(wire.HeaderToken), Worker: "w1", Session: "s1", Event: event, Start: event == wire.ReportClaim}
	}
	spawn := report(wire.ReportSpawn)
	spawn.Children = []wire.Submit{{Type: "page", Params: json.RawMessage("1")}, {Type: "No"}}
	save := report(wire.ReportCheckpoint)
	save.Checkpoint = json.RawMessage(`7`)
	got := ask[[]wire.Reported](r, wire.APIReport, []wire.Report{report(wire.ReportClaim), spawn, save})
	if len(got) != 3 || !got[0].OK || got[1].OK || got[1].Error.Code != events.CodeBadType || !got[2].OK {
		t.Fatalf("got %+v", got)
	}
	if _, err := try[wire.Reported](r, wire.APIReport, spawn); events.CodeOf(err) != events.CodeBadType {
		t.Errorf("alone: %v", err)
	}
	spawn.Children = spawn.Children[:1]
	if got := ask[wire.Reported](r, wire.APIReport, spawn); !got.OK || got.State != events.StateWaiting {
		t.Fatalf("got %+v", got)
	}
	if again := ask[wire.Reported](r, wire.APIReport, spawn); !again.OK || again.State != events.StateWaiting {
		t.Errorf("a repeat gets %+v", again)
	}
	tree := ask[wire.TreeReply](r, wire.APITree, wire.Tree{ID: id, MinPosition: wire.PositionOf(r.eng.Position())})
	if tree.Nodes != 1 || tree.Root.State != events.StateWaiting || tree.Root.Children[0].Type != "page" {
		t.Errorf("the tree %+v", tree)
	}
	it := ask[wire.Item](r, wire.APIGet, wire.Get{ID: tree.Root.Children[0].ID})
	if it.Parent != id {
		t.Errorf("the child's parent is %q", it.Parent)
	}
	if up := ask[wire.TreeReply](r, wire.APITree, wire.Tree{ID: it.ID}); len(up.Path) != 1 || up.Path[0].ID != id {
		t.Errorf("above the child is %+v", up.Path)
	}
	_ = msg.Ack()
}
