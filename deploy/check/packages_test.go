package check

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// file returns the content of a file of the release.
func file(t *testing.T, name string) []byte {
	t.Helper()
	released(t)
	data, err := os.ReadFile(filepath.Join(release.files, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// said runs a program in a folder and returns what it says on standard output.
func said(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// The bill of materials names the programs as they are in the archive, and what they are made of, whose
// licenses are in the archive.
func TestBillOfMaterials(t *testing.T) {
	engine := released(t)
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(file(t, archive()+".cdx.json")), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(engine)
	if err != nil {
		t.Fatal(err)
	}
	licenses, err := os.ReadFile(filepath.Join(filepath.Dir(engine), "THIRD-PARTY-LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range *bom.Components {
		if found[c.BOMRef] {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		found[c.BOMRef] = true
		if c.Name == "streamwright" && (*c.Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256(program)) {
			t.Error("the hash of streamwright is not that of the program in the archive")
		}
		if c.Type == cdx.ComponentTypeLibrary && (c.Licenses == nil || len(*c.Licenses) == 0 || (*c.Licenses)[0].License.ID == "") {
			t.Errorf("%s has no license", c.Name)
		}
		if c.Type == cdx.ComponentTypeLibrary && c.Name != "std" && !bytes.Contains(licenses, []byte("= "+c.Name+"@"+c.Version+": ")) {
			t.Errorf("the licenses do not name %s", c.Name)
		}
	}
	for _, want := range []string{"streamwright", "streamwright-tail", "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go") + "?type=module"} {
		if !found[want] {
			t.Errorf("it has no %s", want)
		}
	}
	if len(found) < 30 {
		t.Errorf("it has %d components", len(found))
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			if !found[ref] {
				t.Errorf("%s needs %s, which is not there", d.Ref, ref)
			}
		}
	}
}

// The formula has this platform's archive with its checksum, and its blocks end.
func TestHomebrew(t *testing.T) {
	formula := string(file(t, "homebrew/streamwright.rb"))
	data := file(t, archive()+".tar.gz")
	for _, want := range []string{
		`version "` + version + `"`, "/releases/download/v" + version + "/" + archive() + `.tar.gz"`,
		fmt.Sprintf(`sha256 "%x"`, sha256.Sum256(data)), "service do",
	} {
		if !strings.Contains(formula, want) {
			t.Errorf("it has no %s", want)
		}
	}
	opened := regexp.MustCompile(`(?m)^\s*(class|def)\b|\bdo$`).FindAllString(formula, -1)
	ended := regexp.MustCompile(`(?m)^\s*end$`).FindAllString(formula, -1)
	if len(opened) != len(ended) {
		t.Errorf("%d blocks begin and %d end:\n%s", len(opened), len(ended), formula)
	}
	// What it installs is in the archive.
	for _, m := range regexp.MustCompile(`install (.*)`).FindAllStringSubmatch(formula, -1) {
		for _, name := range regexp.MustCompile(`"([^"]*)"(?: =>.*)?`).FindAllStringSubmatch(m[1], -1) {
			if found, _ := filepath.Glob(filepath.Join(filepath.Dir(release.engine), name[1])); len(found) == 0 {
				t.Errorf("the archive has no %s", name[1])
			}
		}
	}
}

// Python imports the client from the wheel.
func TestWheel(t *testing.T) {
	released(t)
	wheel := filepath.Join(release.files, "python", "streamwright-"+version+"-py3-none-any.whl")
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		python = program(t, "python3")
	}
	got := said(t, t.TempDir(), python, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import streamwright, importlib.metadata as m; print(m.version('streamwright'), streamwright.Client.__name__)", wheel)
	if got != version+" Client\n" {
		t.Errorf("it says %q", got)
	}
	if sdist := file(t, "python/streamwright-"+version+".tar.gz"); len(sdist) < 10_000 {
		t.Errorf("the sdist has %d bytes", len(sdist))
	}
}

// npm installs the packages from their files into an empty folder: the engine's program runs, stops on a
// signal, and the client submits to it.
func TestNPM(t *testing.T) {
	t.Parallel()
	released(t)
	npm, dir := program(t, "npm"), t.TempDir()
	node := strings.NewReplacer("amd64", "x64", "windows", "win32")
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"}
	for _, name := range []string{"streamwright", "streamwright-engine", "streamwright-engine-" + node.Replace(runtime.GOOS+"-"+runtime.GOARCH)} {
		args = append(args, filepath.Join(release.files, "npm", name+"-"+version+".tgz"))
	}
	said(t, dir, npm, args...)
	if got := said(t, dir, program(t, "npx"), "--no-install", "streamwright-engine", "--version"); !strings.Contains(got, version) {
		t.Errorf("npx streamwright-engine --version says %q", got)
	}
	engine := exec.Command(filepath.Join(dir, "node_modules", ".bin", "streamwright-engine"), "serve", "--dir", "data", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json")
	var errs bytes.Buffer
	engine.Dir, engine.Stderr = dir, &errs
	out, err := engine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = engine.Process.Signal(syscall.SIGTERM)
			_ = engine.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var at struct{ NATS string }
	if err != nil || json.Unmarshal(line, &at) != nil || at.NATS == "" {
		t.Fatalf("it says %q, %v\n%s", line, err, errs.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	const client = `import { connect } from "streamwright";
const client = await connect({ servers: process.argv[2] });
const { id } = await client.submit({ type: "greet", params: { name: "ada" } });
console.log((await client.get(id)).state);
await client.close();
`
	if err := os.WriteFile(filepath.Join(dir, "submit.js"), []byte(client), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := said(t, dir, program(t, "node"), "submit.js", at.NATS); got != "queued\n" {
		t.Errorf("the client says %q", got)
	}
	ended = true
	if err := engine.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := engine.Wait(); err != nil || !strings.Contains(errs.String(), "stopping") {
		t.Errorf("on SIGTERM it ends with %v\n%s", err, errs.String())
	}
	// The program's exit code is that of the package.
	var exit *exec.ExitError
	wrong := exec.Command(filepath.Join(dir, "node_modules", ".bin", "streamwright-engine"), "serve", "--no-such-flag")
	if err := wrong.Run(); !asExit(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("a wrong flag ends it with %v", err)
	}
}

func asExit(err error, exit **exec.ExitError) (ok bool) {
	*exit, ok = err.(*exec.ExitError)
	return ok
}
