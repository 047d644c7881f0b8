package embedded

import (
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
)

// The list of namespaces outlives a restart, a cut of the log and a rebuild of the store.
// Those of the file are the file's, and stay when it has them no more.
func TestTheListOfNamespaces(t *testing.T) {
	need.NoReload(t)
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	with := func(file map[events.Namespace]config.Namespace) Options {
		o := quiet(dir)
		o.Config.Namespaces = file
		return o
	}
	e := mustStart(t, with(map[events.Namespace]config.Namespace{"acme": {MaxQueued: 5}}))
	c := mustClient(t, e)
	ctx := testContext(t)
	n := c.Namespaces()
	if got, err := n.Get(ctx, "acme"); err != nil || got.Limits.MaxQueued != 5 || got.Source != events.SourceFile {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := n.Pause(ctx, "acme"); events.CodeOf(err) != events.CodeSetInFile {
		t.Fatalf("paused, though the file has it: %v", err)
	}
	if _, err := n.Remove(ctx, "acme", streamwright.RemoveNamespace{Force: true}); events.CodeOf(err) != events.CodeSetInFile {
		t.Fatalf("removed, though the file has it: %v", err)
	}
	if _, err := n.Change(ctx, "beta", streamwright.NamespaceChange{}); events.CodeOf(err) != events.CodeNotFound {
		t.Fatalf("changed what is not there: %v", err)
	}
	if got, err := n.Set(ctx, "beta", streamwright.NamespaceChange{Limits: streamwright.NamespaceLimitsChange{RequestsPerSecond: new(7000)}}); err != nil || got.Limits.RequestsPerSecond != 7000 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := n.Pause(ctx, "beta"); err != nil || !got.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := n.Resume(ctx, "beta"); err != nil || got.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	beta, err := n.Move(ctx, "beta", "n2")
	if err != nil || beta.Node != "n2" {
		t.Fatalf("%+v, %v", beta, err)
	}
	if _, err := c.Engine().Cut(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	stopEngine(t, e)

	e = mustStart(t, with(nil))
	c = mustClient(t, e)
	n = c.Namespaces()
	list, err := n.List(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "acme" || list[0].Source != events.SourceAPI || list[0].Limits.MaxQueued != 5 || list[1].NamespaceInfo != beta.NamespaceInfo {
		t.Fatalf("%+v, %v", list, err)
	}
	if p, err := c.Engine().Verify(ctx, nil); err != nil || !p.Equal {
		t.Fatalf("%+v, %v", p, err)
	}
	if would, err := n.Remove(ctx, "acme", streamwright.RemoveNamespace{DryRun: true}); err != nil || would.Removed {
		t.Fatalf("%+v, %v", would, err)
	}
	if did, err := n.Remove(ctx, "acme", streamwright.RemoveNamespace{Force: true, By: "ops"}); err != nil || !did.Removed {
		t.Fatalf("%+v, %v", did, err)
	}
	need.Eventually(t, "acme is off the list", func() bool {
		list, err := n.List(ctx)
		return err == nil && len(list) == 1
	})
}
