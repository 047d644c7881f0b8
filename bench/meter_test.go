package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// The meter counts what a process and its children use, and leaves the rest to others.
func TestMeter(t *testing.T) {
	const spin = `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done`
	// The child of the shell spins, and is reaped before the shell says so.
	cmd := exec.Command("sh", "-c", `read go; sh -c '`+spin+`'; echo done; read end`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m, err := startMeter(os.Getpid(), cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	u, err := m.stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the shell's read fails at the end of its input
	life := lifeOf(cmd.ProcessState)
	if u.Server.CPU < 10*time.Millisecond || m.from[1].CPU+u.Server.CPU > life.CPU+20*time.Millisecond || u.Server.Peak == 0 || u.Client.Peak == 0 || u.Others < 0 || u.Others > 1 {
		t.Errorf("used %+v after %+v, in its life %+v", u, m.from, life)
	}
}
