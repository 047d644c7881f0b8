package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed streamwright.rb.tmpl
var formulaText string

// formula writes the Homebrew formula, of the archives of platforms that Homebrew knows.
func (r *release) formula(archives map[platform]string) error {
	type source struct{ Archive, Sum string }
	of := map[string]map[string]source{}
	for p, name := range archives {
		system := map[string]string{"darwin": "macos", "linux": "linux"}[p.os]
		if system == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		if of[system] == nil {
			of[system] = map[string]source{}
		}
		of[system][map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch]] = source{name, fmt.Sprintf("%x", sha256.Sum256(data))}
	}
	if len(of) == 0 {
		return nil
	}
	t, err := template.New("").Parse(formulaText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, map[string]any{"Version": r.version, "Systems": of}); err != nil {
		return err
	}
	return r.write("homebrew/streamwright.rb", []byte(b.String()))
}
