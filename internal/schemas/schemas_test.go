package schemas

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/streamwright/streamwright/events"
)

const root = "../.."

// What is committed is what the Go types say. Run with UPDATE_DOCS=1 to write
// it.
func TestFilesAreCurrent(t *testing.T) {
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		full := filepath.Join(root, path)
		have, err := os.ReadFile(full)
		if err == nil && bytes.Equal(have, files[path]) {
			continue
		}
		if os.Getenv("UPDATE_DOCS") == "" {
			t.Errorf("%s is not current: run UPDATE_DOCS=1 go test ./internal/schemas", path)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, files[path], 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every kind of event has a schema, or is said to have none.
func TestEveryKindIsDescribed(t *testing.T) {
	for k := events.Kind(1); int(k) < events.NumKinds; k++ {
		if (payloads[k] != nil) == slices.Contains(inner, k) {
			t.Errorf("kind %s must be either in payloads or in inner", k)
		}
	}
}
