package main

import (
	"strings"
	"testing"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
)

// Commands read NOUN VERB, and a noun alone lists.
func TestOneGrammar(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	do := func(line string) ran {
		return engine(t, "", append([]string{"--server", e.URL()}, strings.Fields(line)...)...)
	}
	do("schedules set nightly --type report --every 1h").wants(t, 0)
	do("submit report {}").wants(t, 0)
	for _, n := range []struct{ noun, says string }{{"types", "report"}, {"schedules", "nightly"}, {"workers", "no workers"}, {"batches", "no batches"}, {"dead", "nothing is dead"}, {"rejected", "nothing was rejected"}} {
		do(n.noun).wants(t, 0, n.says)
		do(n.noun+" list").wants(t, 0, n.says)
	}
	do("schedules show nightly").wants(t, 0, "every 1h")
	do("schedules show x").wants(t, 1, "`engine schedules` lists them (not_found)")
	do("types show report").wants(t, 0, "capacity")
	do("types show x").wants(t, 1, "`engine types` lists them (not_found)")
	do("version").wants(t, 0, "engine "+embedded.Version)
	do("version --json").wants(t, 0, `"version":"`+embedded.Version+`"`)
	id := strings.TrimSpace(do("batches open --name b").wants(t, 0).out)
	do("batches show "+id).wants(t, 0, "b: 0 of 0 done")
	do("batches seal "+id).wants(t, 0, "completed")
	do("batches show "+id+" --wait").wants(t, 0, "completed")
	do("pause report").wants(t, 2, "use `engine types pause`")
	do("batch "+id).wants(t, 2, "did you mean batches?")
	do("workers drain w").wants(t, 1, "not_found")
}

// The commands that `why` prints can be pasted: they go to the server that was asked.
func TestWhyPrintsTheServer(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop(t.Context()) }()
	engine(t, "", "--server", e.URL(), "types", "pause", "report").wants(t, 0)
	engine(t, "", "--server", e.URL(), "submit", "report", "{}", "--id", anID).wants(t, 0)
	engine(t, "", "why", anID, "--server", e.URL()).wants(t, 0, "(`engine types resume report --server "+e.URL()+"` ends the pause)")
	engine(t, "", "status", "--server", e.URL()).wants(t, 0, "`engine types resume TYPE --server "+e.URL()+"`")
	t.Setenv("NATS_URL", e.URL())
	engine(t, "", "why", anID).wants(t, 0, "(`engine types resume report` ends the pause)")
}
