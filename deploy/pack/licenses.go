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

	"github.com/google/licensecheck"
)

// licenseFile matches the licenses of a module, and addition what has to go with them.
var (
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
	addition    = regexp.MustCompile(`(?i)^(notice|patents)`)
)

// gatherLicenses notes the licenses of all modules that the programs are made of: their texts, and their SPDX
// identifiers. A module without a known license is an error.
func (r *release) gatherLicenses(platforms []platform) error {
	modules := map[string]bool{}
	for _, file := range r.programFiles(platforms) {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range modulesOf(info) {
			if name := nameOf(m); name != std {
				modules[name] = true
			}
		}
	}
	folders, err := r.folders()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("Streamwright's programs are made of the modules below, and of Go's standard library.\n")
	r.licenses = map[string][]string{}
	add := func(module, title string) error {
		folder := folders[module]
		if folder == "" {
			return errors.New(module + " is not in the module cache")
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			license := licenseFile.MatchString(e.Name())
			if e.IsDir() || !license && !addition.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n======== %s: %s ========\n\n%s\n", title, e.Name(), strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
			if !license {
				continue
			}
			for _, m := range licensecheck.Scan(text).Match {
				if !slices.Contains(r.licenses[module], m.ID) {
					r.licenses[module] = append(r.licenses[module], m.ID)
				}
			}
		}
		if r.licenses[module] == nil {
			return fmt.Errorf("%s has no known license in %s", title, folder)
		}
		return nil
	}
	if err := add(std, "Go"); err != nil {
		return err
	}
	for _, m := range slices.Sorted(maps.Keys(modules)) {
		if err := add(m, m); err != nil {
			return err
		}
	}
	r.notices = b.String()
	return nil
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
				name, folder = std, name
			}
			all[name] = folder
		}
	}
	return all, nil
}
