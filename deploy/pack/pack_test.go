package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var moment = time.Unix(499162500, 0).UTC()

// What a tree becomes does not depend on the order in which it was made, nor on when.
func TestArchivesAreReproducible(t *testing.T) {
	for name, pack := range map[string]func(tree, time.Time) ([]byte, error){"tar": tarball, "zip": zipped} {
		var first []byte
		for i := range 5 {
			made := tree{}
			for j := range 5 {
				path := string(rune('a' + (i+j)%5))
				made.add("top/"+path, []byte(path), 0o644)
			}
			data, err := pack(made, moment)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = data
			}
			if !bytes.Equal(first, data) {
				t.Errorf("%s: the same tree gives other bytes", name)
			}
		}
	}
}

// Go's own readers find in a zip what was put in, with its modes.
func TestZip(t *testing.T) {
	data, err := zipped(tree{"a/run.exe": {[]byte("program"), 0o755}}, moment)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(z.File) != 1 || z.File[0].Name != "a/run.exe" || z.File[0].Mode() != 0o755 || !z.File[0].Modified.Equal(moment) {
		t.Fatalf("%+v %v", z.File, err)
	}
	f, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); string(got) != "program" {
		t.Errorf("%q %v", got, err)
	}
}

// A tree of dpkg begins with its root, and each folder comes before what is in it.
func TestFolders(t *testing.T) {
	data, err := tarball(withFolders(tree{"usr/bin/x": {[]byte("x"), 0o755}, "etc/y": {[]byte{}, 0o644}}), moment)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "./ ./etc/ ./etc/y ./usr/ ./usr/bin/ ./usr/bin/x" {
		t.Errorf("the entries are %s", got)
	}
}

// Members of an ar have even lengths.
func TestAr(t *testing.T) {
	var b bytes.Buffer
	arMember(&b, "name", []byte("odd"), moment)
	if want := "name            499162500   0     0     100644  3         `\nodd\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestDebianVersion(t *testing.T) {
	for v, want := range map[string]string{"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1"} {
		if got := debianVersion(v); got != want {
			t.Errorf("%s is %s, want %s", v, got, want)
		}
	}
}

// The npm package of the engine names a package for each platform of a release.
func TestPackageForEachPlatform(t *testing.T) {
	text, err := os.ReadFile("../npm/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		OptionalDependencies map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../release.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(script), "|| set -- ")
	line, _, _ = strings.Cut(line, "\n")
	platforms := strings.Fields(line)
	if len(platforms) != len(m.OptionalDependencies) || len(platforms) == 0 {
		t.Errorf("a release is for %v, and the package needs %v", platforms, m.OptionalDependencies)
	}
	for _, p := range platforms {
		os, arch, _ := strings.Cut(p, "/")
		if name := programPackage(platform{os, arch}); m.OptionalDependencies[name] == "" {
			t.Errorf("it lacks %s", name)
		}
	}
}

// The formula has what there are archives for, but not Windows.
func TestFormula(t *testing.T) {
	r := &release{version: "1.2.3", out: t.TempDir()}
	archives := map[platform]string{{"darwin", "arm64"}: "mac.tar.gz", {"linux", "amd64"}: "linux.tar.gz", {"windows", "amd64"}: "windows.zip"}
	for _, name := range archives {
		if err := r.write(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.formula(archives); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "homebrew", "streamwright.rb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"on_macos do\n    on_arm do", "on_linux do\n    on_intel do", "/v1.2.3/mac.tar.gz"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "windows") {
		t.Errorf("it has Windows:\n%s", text)
	}
}
