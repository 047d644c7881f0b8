package pythonclient

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
)

const folder = "../../clients/python"

// The roles of the token are all.
const token = "0123456789-of-the-python-tests"

// python returns Debian's Python, which has setuptools, else another one.
func python(t *testing.T) string {
	t.Helper()
	return need.Program(t, "/usr/bin/python3", "python3")
}

// run runs Python in the package's folder, and returns what it says.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), args...)
	cmd.Dir, cmd.WaitDelay = folder, 10*time.Second
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python3 %v: %v\n%s", args, err, out)
	}
	return string(out)
}

var ran = regexp.MustCompile(`(?m)^Ran (\d+) tests? in .*\n\nOK$`)

// The Python package's own tests pass: its client and worker against the engine of this
// source tree, which speaks TLS and asks for tokens where [logins.Env] is set.
func TestPythonPackage(t *testing.T) {
	need.Seconds(t)
	python(t)
	engine := filepath.Join(t.TempDir(), "engine")
	if out, err := exec.Command("go", "build", "-o", engine, "github.com/streamwright/streamwright/cmd/engine").CombinedOutput(); err != nil {
		t.Fatalf("build the engine: %v\n%s", err, out)
	}
	env := []string{"STREAMWRIGHT_ENGINE=" + engine}
	if l := logins.Of(t); l != nil {
		tokens := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(tokens, []byte("tests "+token+" submit,work,read,operate\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		env = append(env, "STREAMWRIGHT_TEST_TOML="+l.TOML()+l.HTTP(tokens), "STREAMWRIGHT_TOKEN="+token, "STREAMWRIGHT_CA="+l.Settings(logins.All).CA)
	}
	all := [][]string{{"tests.test_json", "tests.test_client", "tests.test_examples"}, {"tests.test_worker"}, {"tests.test_process"}}
	if logins.Of(t) == nil { // what it puts before the engine speaks plain HTTP
		all = append(all, []string{"tests.test_namespace"})
	}
	for _, modules := range all {
		t.Run(modules[0], func(t *testing.T) {
			t.Parallel() // each has engines of its own
			out := run(t, env, append([]string{"-W", "error::ResourceWarning", "-m", "unittest"}, modules...)...)
			if ran.FindString(out) == "" { // "OK (skipped=1)" neither
				t.Errorf("unittest did not run all of its tests:\n%s", out)
			}
		})
	}
}

// The wheel is built by setuptools alone, and what is in it is the package, with its types.
func TestPythonWheel(t *testing.T) {
	need.Seconds(t)
	if err := exec.Command(python(t), "-c", "import setuptools, wheel").Run(); err != nil {
		need.Missing(t, "setuptools and wheel are not there (Debian: python3-setuptools, python3-wheel): %v", err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "source") // a build writes beside it
	if err := os.CopyFS(source, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	const script = `
import sys, zipfile
from pathlib import Path
from setuptools import build_meta
target = Path(sys.argv[1])
name = build_meta.build_wheel(str(target))
zipfile.ZipFile(target / name).extractall(target / "site")
sys.path.insert(0, str(target / "site"))
import streamwright
assert Path(streamwright.__file__).is_relative_to(target), streamwright.__file__
assert (target / "site/streamwright/py.typed").exists()
assert not (target / "site/tests").exists()
print(name, end="")
`
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python(t), "-P", "-c", script, dir)
	cmd.Dir = source
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("build the wheel: %v\n%s", err, out)
	}
	if want := regexp.MustCompile(`streamwright-\d+\.\d+\.\d+-py3-none-any\.whl$`); !want.Match(out) {
		t.Errorf("the wheel is %s", out)
	}
}

// The package has no type errors, by mypy's strictest rules.
func TestPythonTypes(t *testing.T) {
	need.Seconds(t)
	python(t)
	path := need.Program(t, "mypy")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--cache-dir", t.TempDir())
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("mypy: %v\n%s", err, out)
	}
}
