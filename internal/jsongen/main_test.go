package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The code that is checked in is what jsongen writes.
func TestTheCodeIsCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, target := range targets {
		code, tests, err := target.generate(root)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]byte{output: code, testOutput: tests} {
			if has, err := os.ReadFile(filepath.Join(root, target.path, name)); err != nil || !bytes.Equal(has, want) {
				t.Errorf("%s/%s is stale: write it anew with: go run ./internal/jsongen, in the root of the repository", target.path, name)
			}
		}
	}
}
