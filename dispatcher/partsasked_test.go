package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/wire/command"
)

// childrenOf are a spawn's children as a document has them.
func childrenOf(params ...string) []core.Submit {
	kids := make([]core.Submit, len(params))
	for i, p := range params {
		kids[i] = core.Submit{Type: "email", Params: json.RawMessage(p)}
	}
	return kids
}

// spawnInParts ends a run in so many children that are made in parts.
func (h *harness) spawnInParts(r wire.Report, n int) events.ID {
	h.t.Helper()
	r.Event, r.Children = wire.ReportSpawn, make([]wire.Submit, n)
	for i := range r.Children {
		r.Children[i] = wire.Submit{Type: "email", Params: json.RawMessage(`0`)}
	}
	prepared := command.Report{Report: &r}
	if err := prepared.Prepare(h.eng.NewID, events.MaxParamsBytes); err != nil {
		h.t.Fatal(err)
	}
	prepared.InParts(json.RawMessage(`"ref"`))
	if a := h.reportPrepared(prepared)[0]; !a.OK {
		h.t.Fatalf("%+v", a)
	}
	id, err := events.ParseID(r.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// allMade waits until the children of a spawn are made.
func (h *harness) allMade(parent events.ID, n int) {
	h.t.Helper()
	h.until("the children are made", func() bool { return h.item(parent).Relations.Made == n })
}

// Children that are made in parts are judged as well: they see what is live and
// their siblings, and not their parent.
func TestJudgeOfChildrenInParts(t *testing.T) {
	var asked questions
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Timeout: dedup.MaxTimeout, Hook: judgeFunc(func(_ context.Context, q DedupQuestion) (events.Verdict, error) {
			asked.note(q)
			return mergeAlike(q)
		})}
		c.Children = func(context.Context, string) ([]core.Submit, error) {
			return childrenOf(`"same"`, `"twin"`, `"twin"`, `"parent"`), nil
		}
	})
	run := h.runningParent()
	same := h.do(submitOf(h, `"same"`)).Decision.ID
	parent := h.spawnInParts(run, 4)
	h.allMade(parent, 4)
	if n := asked.len(); n != 6 { // the parent, the same, and four children
		t.Errorf("%d questions, want 6", n)
	}
	kids, err := h.store.Children(parent, events.ID{}, 10)
	if err != nil || len(kids) != 4 {
		t.Fatalf("%v %v", kids, err)
	}
	if it := h.item(kids[0]); it.MergedInto != same {
		t.Errorf("the first child: %+v", it)
	}
	if it := h.item(kids[2]); it.MergedInto != kids[1] {
		t.Errorf("the third child: %+v", it)
	}
	if it := h.item(kids[3]); it.State != events.StateQueued {
		t.Errorf("the child that is like its parent: %+v", it)
	}
}

// Who makes parts and finds one that another has made, of another size, goes on
// behind that: no child is left out, and none is made twice.
func TestPartsThatAnotherHasMade(t *testing.T) {
	const n = events.SpawnPartSize + 50
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	reading, other := make(chan struct{}), make(chan struct{})
	first := true
	h := newHarness(t, func(c *Config) {
		c.Children = func(context.Context, string) ([]core.Submit, error) {
			if first {
				first = false
				close(reading)
				<-other
			}
			return childrenOf(all...), nil
		}
	})
	parent := h.spawnInParts(h.runningParent(), n)
	<-reading
	kids := childrenOf(all[:3]...)
	for i := range kids {
		kids[i].NewID = h.eng.NewID()
	}
	h.do(core.SpawnPart{ID: parent, Spawn: 1, Children: kids})
	close(other)
	h.allMade(parent, n)
	made, err := h.store.Children(parent, events.ID{}, 2*n)
	if err != nil || len(made) != n {
		t.Fatalf("%d children, %v", len(made), err)
	}
	for i, id := range made {
		if p, err := h.store.Document(events.DocParams, id); err != nil || string(p) != all[i] {
			t.Fatalf("child %d has params %s, %v", i, p, err)
		}
	}
}
