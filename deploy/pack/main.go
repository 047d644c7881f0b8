package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pack VERSION WORK FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// release is a release that is made.
type release struct {
	version string
	work    string // what it is made of
	out     string
	sources string // the repository
	at      time.Time
	notices string // the licenses of what the programs are made of, their texts
	// licenses has the SPDX identifiers of each module's licenses, by its name: see nameOf.
	licenses map[string][]string
}

// platform is what programs are built for, as Go names it.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// programs of a platform, with the endings of their names.
func (p platform) programs() []string {
	if p.os == "windows" {
		return []string{"streamwright.exe", "streamwright-tail.exe"}
	}
	return []string{"streamwright", "streamwright-tail"}
}

func run(version, work, out string) error {
	sources, err := repository()
	if err != nil {
		return err
	}
	text := os.Getenv("SOURCE_DATE_EPOCH")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: use seconds since 1970", text)
	}
	r := &release{version: version, work: work, out: out, sources: sources, at: time.Unix(at, 0).UTC()}
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	if err := r.gatherLicenses(platforms); err != nil {
		return err
	}
	archives := map[platform]string{}
	for _, p := range platforms {
		if archives[p], err = r.archive(p); err != nil {
			return fmt.Errorf("archive for %s: %w", p, err)
		}
		if err := r.bom(p); err != nil {
			return fmt.Errorf("bill of materials for %s: %w", p, err)
		}
		if p.os == "linux" {
			if err := r.deb(p); err != nil {
				return fmt.Errorf("package of Debian for %s: %w", p, err)
			}
		}
		if err := r.npmProgram(p); err != nil {
			return fmt.Errorf("npm package for %s: %w", p, err)
		}
	}
	for _, make := range []func() error{r.npmEngine, r.sdist, r.chart, func() error { return r.formula(archives) }, r.checksums} {
		if err := make(); err != nil {
			return err
		}
	}
	return nil
}

// repository finds the folder of the repository, above this one.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "build.sh")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run it in the repository")
		}
		dir = up
	}
	return "", err
}

// platforms are those that there are programs for.
func (r *release) platforms() (all []platform, err error) {
	entries, err := os.ReadDir(filepath.Join(r.work, "bin"))
	for _, e := range entries {
		os, arch, ok := strings.Cut(e.Name(), "-")
		if !ok {
			return nil, fmt.Errorf("bin/%s is not named OS-ARCH", e.Name())
		}
		all = append(all, platform{os, arch})
	}
	if err == nil && len(all) == 0 {
		err = errors.New("there are no programs in bin")
	}
	return all, err
}

// tree is what an archive holds: content by path, with slashes.
type tree map[string]entry

type entry struct {
	data []byte
	mode fs.FileMode // a folder if data is nil
}

// add adds a file.
func (t tree) add(path string, data []byte, mode fs.FileMode) {
	if data == nil {
		data = []byte{}
	}
	t[path] = entry{data, mode}
}

// copy adds a file of the machine.
func (t tree) copy(path, from string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	t.add(path, data, mode)
	return nil
}

// copyAll adds the files of a folder and those below it, all of them with one mode.
func (t tree) copyAll(under, folder string, mode fs.FileMode) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return t.copy(under+filepath.ToSlash(name), path, mode)
	})
}

// paths are those of the tree in order.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
