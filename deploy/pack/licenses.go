package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenseFile matches the files of a module that have to go with what is made of it.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// licenses returns the licenses of all modules that the programs are made of, each with its module's name.
func (r *release) licenses(platforms []platform) (string, error) {
	modules := map[string]bool{}
	for _, file := range r.programFiles(platforms) {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, m := range modulesOf(info) {
			if m.Path != "std" {
				modules[m.Path+"@"+m.Version] = true
			}
		}
	}
	folders, err := r.folders()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("Streamwright's programs are made of the modules below, and of Go's standard library.\n")
	add := func(name, folder string) error {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n======== %s: %s ========\n\n%s\n", name, e.Name(), strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
			found = true
		}
		if !found {
			return fmt.Errorf("%s has no license in %s", name, folder)
		}
		return nil
	}
	if err := add("Go", folders["std"]); err != nil {
		return "", err
	}
	for _, m := range slices.Sorted(maps.Keys(modules)) {
		folder := folders[m]
		if folder == "" {
			return "", errors.New(m + " is not in the module cache")
		}
		if err := add(m, folder); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// folders returns where modules are, by name and version, and Go itself as std.
func (r *release) folders() (map[string]string, error) {
	all := map[string]string{}
	for _, args := range [][]string{{"list", "-m", "-f", "{{.Path}}@{{.Version}}\t{{.Dir}}", "all"}, {"env", "GOROOT"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Stderr = r.sources, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w", args[0], err)
		}
		for line := range strings.Lines(string(out)) {
			name, folder, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if !ok {
				name, folder = "std", name
			}
			all[name] = folder
		}
	}
	return all, nil
}
