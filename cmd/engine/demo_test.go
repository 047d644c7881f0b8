package main

import (
	"encoding/json"
	"testing"

	"github.com/streamwright/streamwright/internal/demo"
)

// The demo runs the whole engine; with --json programs can read what it found.
func TestDemo(t *testing.T) {
	r := engine(t, "", "demo", "--json", ".").wants(t, 0, "give the live store, byte for byte")
	var found demo.Report
	if err := json.Unmarshal([]byte(r.out), &found); err != nil {
		t.Fatalf("%v: %q", err, r.out)
	}
	if found.Files == 0 || found.Equal != found.Files || found.Events != 5*found.Files || len(found.Digest) != 64 {
		t.Errorf("got %+v", found)
	}
	engine(t, "", "demo", "no such folder").wants(t, 1, "no such folder", "name a folder")
}
