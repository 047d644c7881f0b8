package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

func TestNamespaceCommands(t *testing.T) {
	need.NoReload(t)
	url := realEngine(t)
	do := func(args string) ran {
		t.Helper()
		return engine(t, "", append(strings.Fields(args), "--server", url)...)
	}
	do("namespaces").wants(t, 0, "no namespaces beside default")
	do("namespaces add acme --max-queued 1000 --max-log-size 10GiB --node n1").wants(t, 0, "acme", "1,000", "10GiB", "n1", "api")
	do("namespaces add acme").wants(t, 0, "1,000", "10GiB")
	do("namespace set acme --max-log-size 0 --requests-per-second 57 --max-document-size 1GiB").wants(t, 0, "1,000", "57")
	r := do("namespaces show acme --json").wants(t, 0)
	var n wire.NamespaceInfo
	want := events.NamespaceLimits{MaxQueued: 1000, MaxDocumentBytes: 1 << 30, RequestsPerSecond: 57}
	if err := json.Unmarshal([]byte(r.out), &n); err != nil || n.Name != "acme" || n.Limits != want || n.Node != "n1" || n.Paused {
		t.Errorf("%+v %v", n, err)
	}
	do("namespaces pause acme").wants(t, 0, "paused")
	do("namespaces list").wants(t, 0, "acme", "paused")
	do("namespaces resume acme").wants(t, 0)
	do("namespace set acme --accept beta,default").wants(t, 0, "accept               beta, default")
	do("namespace set acme --accept Beta").wants(t, 2, "--accept")
	do("namespace set acme --accept acme").wants(t, 2, "from itself")
	need.Eventually(t, "acme accepts what default hands to it", func() bool { return do("submit ship {} --to acme").code == 0 })
	do("submit ship {} --to acme --json").wants(t, 0, `"namespace":"acme"`)
	do("submit ship {} --to acme --wait").wants(t, 2, "--wait")
	do("submit ship {} --to nobody").wants(t, 1, "not_found", "engine namespace set nobody --accept default")
	do("namespace set acme --accept=").wants(t, 0)
	do("namespaces move acme --to n2").wants(t, 0, "n2")
	do("namespaces add beta").wants(t, 0)
	if r := do("namespaces --json").wants(t, 0, `"name":"acme"`, `"name":"beta"`); len(lines(r.out)) != 2 {
		t.Errorf("%q", r.out)
	}
	for args, says := range map[string]string{
		"namespaces set acme":                    "nothing to change",
		"namespaces set acme --max-queued -1":    "0 for no limit",
		"namespaces set acme --max-log-size 10x": "--max-log-size",
		"namespaces move acme":                   "--to",
		"namespaces remove acme":                 "no terminal to type the name of the namespace on: pass --yes",
		"namespaces add":                         "NAME",
	} {
		do(args).wants(t, 2, says)
	}
	do("namespaces set nobody --max-queued 1").wants(t, 1, "not_found")
	do("namespaces pause nobody").wants(t, 1, "not_found")
	do("namespaces add default").wants(t, 2, "always there")
	do("namespaces remove default --yes").wants(t, 2, "always there")
	do("submit ship {} --namespace acme").wants(t, 0)
	do("namespaces remove acme --yes").wants(t, 1, "use force", "wrong_state")
	do("namespaces remove acme --yes --force --by kelly").wants(t, 0, "removed acme")
	do("namespaces remove acme --yes").wants(t, 1, "not_found")
	do("namespaces remove beta --yes --force --json").wants(t, 0, `"removed":true`)
	summary := console.Summary(streamwright.Event{Data: json.RawMessage(`{"namespace":{"name":"acme","paused":true,"node":"n2","source":"api"}}`)}, console.Style{})
	if summary != "name=acme source=api paused=true node=n2" {
		t.Errorf("tail shows %q", summary)
	}
}

// Who removes a namespace sees first what goes with it.
func TestDestroyedIsShown(t *testing.T) {
	var b bytes.Buffer
	a := &app{}
	n := streamwright.NamespaceInfo{NamespaceInfo: events.NamespaceInfo{Name: "acme", Paused: true}, State: &wire.NamespaceState{
		State: wire.NamespaceRunning, States: map[string]int64{"queued": 3, "completed": 1200}, LogBytes: 5 << 20,
	}}
	a.printDestroyed(&b, n)
	for _, says := range []string{"namespace acme (running, paused)", "1,203 items", "completed  1,200", "queued     3", "5.0 MiB of event log"} {
		if !strings.Contains(b.String(), says) {
			t.Errorf("%q is not in\n%s", says, b.String())
		}
	}
}
