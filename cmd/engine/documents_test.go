package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// A large item as a user has it: submitted from a file, run by a command of
// engine.toml, shown, and its documents written.
func TestLargeDocuments(t *testing.T) {
	dir := t.TempDir()
	var cfg config.Config
	cfg.Types = map[events.Type]config.Type{"copy": {Exec: &config.Exec{Command: []string{"cat"}, Concurrency: 1}}}
	e, err := embedded.Start(t.Context(), embedded.Options{Config: cfg, Dir: filepath.Join(dir, "data"), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Stop(t.Context())
	doc := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	file := filepath.Join(dir, "params.json")
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	at := []string{"--server", e.URL()}
	r := engine(t, "", append([]string{"submit", "copy", "@" + file, "--wait", "--json"}, at...)...).wants(t, 0)
	var it streamwright.WorkItem
	last := lines(r.out)
	if err := json.Unmarshal([]byte(last[len(last)-1]), &it); err != nil || it.State != events.StateCompleted {
		t.Fatalf("%v: %.200s", err, r.out)
	}
	engine(t, "", append([]string{"show", it.ID}, at...)...).wants(t, 0, "1.0 MiB in the object store (--params FILE writes it)", "(--result FILE writes it)")
	out := filepath.Join(dir, "result.json")
	r = engine(t, "", append([]string{"show", it.ID, "--params", "-", "--result", out}, at...)...).wants(t, 0, "result.json: 1.0 MiB")
	if r.out != doc {
		t.Errorf("the params written have %d bytes, want %d", len(r.out), len(doc))
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, []byte(doc)) {
		t.Errorf("the result written has %d bytes, %v", len(got), err)
	}
	missing := filepath.Join(dir, "no", "folder")
	engine(t, "", append([]string{"show", it.ID, "--params", missing}, at...)...).wants(t, 1, missing)
	small := engine(t, "", append([]string{"submit", "copy", `{"a":1}`, "--wait", "--json"}, at...)...).wants(t, 0)
	last = lines(small.out)
	if err := json.Unmarshal([]byte(last[len(last)-1]), &it); err != nil {
		t.Fatal(err)
	}
	if r := engine(t, "", append([]string{"show", it.ID, "--result", "-"}, at...)...).wants(t, 0); r.out != `{"a":1}` {
		t.Errorf("a small result is written as %q", r.out)
	}
	for n, want := range map[int64]string{5: "5 B", 1 << 10: "1.0 KiB", 5452595: "5.2 MiB", 3 << 30: "3.0 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("%d bytes are shown as %s, want %s", n, got, want)
		}
	}
}
