package process

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/streamwright/streamwright/workers"
)

// The test binary as a program that holds memory and burns CPU until its standard
// input ends, or has a child that does.
func init() {
	switch os.Getenv("USAGE_HELPER") {
	case "":
		return
	case "parent":
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "USAGE_HELPER=child")
		cmd.Stdin = os.Stdin
		_ = cmd.Run()
	case "child":
		hold := make([]byte, 64<<20)
		for i := range hold {
			hold[i] = 1
		}
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		}
		_, _ = os.Stdin.Read(make([]byte, 1))
		runtime.KeepAlive(hold)
	}
	os.Exit(0)
}

// A run counts what its child and the child's own children use, and what they have
// used stays counted.
func TestChildrenAreMeasured(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "USAGE_HELPER=parent")
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := new(meter)
	m.started(cmd.Process.Pid)
	if runtime.GOOS == "linux" {
		limit := time.Now().Add(30 * time.Second)
		for u := m.read(); u.Memory < 64<<20 || u.CPU < 20*time.Millisecond; u = m.read() {
			if time.Now().After(limit) {
				t.Fatalf("the children use %+v", u)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	out.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	m.ended(cmd.ProcessState)
	if u := m.read(); u.Memory != 0 || u.CPU < 20*time.Millisecond {
		t.Errorf("after their end they use %+v", u)
	}
}

// The handler measures its child.
func TestHandlerMeasures(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("USAGE_HELPER", "child")
	var read func() workers.Usage
	var at workers.Usage
	item := &workers.RawItem{Type: "a", OnMeasure: func(r func() workers.Usage) func() {
		read = r
		return func() { at = r() }
	}}
	if _, err := Handler([]string{self})(context.Background(), item); err != nil {
		t.Fatal(err)
	}
	if read == nil || at.CPU == 0 {
		t.Errorf("the run has used %+v", at)
	}
}
