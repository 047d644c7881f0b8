// Command make builds the playground of the documentation into a folder, from which the
// engine embeds it: playground.wasm.gz, and the wasm_exec.js of the Go that has compiled it.
// The same sources and the same Go give the same bytes.
//
//	go run ./internal/playground/make internal/docs/site/playground
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "make the playground:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	work, err := os.MkdirTemp("", "playground-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }() // what is left of it is in the machine's temporary folder
	program := filepath.Join(work, "playground.wasm")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-pgo=off", "-ldflags=-s -w", "-o", program, "github.com/streamwright/streamwright/internal/playground/wasm")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOWASM=", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	loader, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(code); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"playground.wasm.gz": packed.Bytes(), "wasm_exec.js": loader} {
		if err := replace(filepath.Join(folder, name), data); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file, unless it is so already: a compiler may be reading it.
func replace(path string, data []byte) error {
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, data) {
		return nil
	}
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
