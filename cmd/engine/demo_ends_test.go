//go:build unix

package main

import (
	"bufio"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
)

// Whatever a demo dies of, its nodes end with it, and nothing that it made is left. A
// SIGHUP that its parent ignores, as under nohup, ends nothing.
func TestDemoEnds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closePipe := func(_ *os.Process, out *os.File) error { return out.Close() }
	by := func(sig syscall.Signal) func(*os.Process, *os.File) error {
		return func(p *os.Process, _ *os.File) error { return p.Signal(sig) }
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	demo, cluster := []string{program, "demo", dir}, []string{program, "demo", "--cluster", dir}
	nohup := append([]string{"/bin/sh", "-c", `trap '' HUP; exec "$0" "$@"`}, cluster...)
	for _, c := range []struct {
		name    string
		args    []string
		end     func(*os.Process, *os.File) error
		ignored bool // the demo ignores the signal, and a SIGTERM ends it
	}{
		{"one engine, nobody reads", demo, nil, false},
		{"nobody reads", cluster, closePipe, false},
		{"SIGTERM", cluster, by(syscall.SIGTERM), false},
		{"SIGHUP", cluster, by(syscall.SIGHUP), signal.Ignored(syscall.SIGHUP)},
		{"SIGHUP, ignored", nohup, by(syscall.SIGHUP), true},
		{"SIGKILL", cluster, by(syscall.SIGKILL), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			made := t.TempDir()
			var said need.Log
			demo := exec.Command(c.args[0], c.args[1:]...)
			demo.Stdout, demo.Stderr = in, &said
			demo.Env = append(os.Environ(), "TMPDIR="+made)
			err = demo.Start()
			in.Close()
			if err != nil {
				t.Fatal(err)
			}
			if c.end == nil {
				out.Close() // it is over too soon to be waited for
			} else {
				endAtFirstLine(t, demo.Process, out, made, c.end)
			}
			if c.ignored {
				if err := demo.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			err = demo.Wait()
			// It handles a SIGTERM, and nothing else here.
			if status := demo.ProcessState.Sys().(syscall.WaitStatus); err == nil || c.ignored && status.Signaled() {
				t.Errorf("the demo has ended with %v: %s", err, said.String())
			}
			// The guard removes the folder behind the last node.
			need.Eventually(t, "nothing is left", func() bool { return entries(t, made) == 0 })
		})
	}
}

// endAtFirstLine ends a demo once it has said something.
func endAtFirstLine(t *testing.T, demo *os.Process, out *os.File, made string, end func(*os.Process, *os.File) error) {
	t.Helper()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	if entries(t, made) == 0 {
		t.Fatal("the demo works in another folder: the test proves nothing")
	}
	if err := end(demo, out); err != nil {
		t.Fatal(err)
	}
}

// entries returns how much there is in a folder.
func entries(t *testing.T, dir string) int {
	t.Helper()
	in, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(in)
}
