package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
)

// terminal opens a pseudo terminal: what a person has, and what a program has.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	var n int
	control, err := person.SyscallConn()
	if err == nil {
		err = errors.Join(control.Control(func(fd uintptr) {
			if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
				n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
			}
		}), err)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// converse runs the program on a terminal, types something at a question, once asked has
// returned, and returns its exit code and all that it has shown.
func converse(t *testing.T, question, typed string, asked func(), args ...string) (code int, text string) {
	t.Helper()
	person, program := terminal(t)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	program.Close()
	seen := make(chan string, 1)
	questioned := make(chan struct{})
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for waiting := true; ; {
			n, err := person.Read(buf)
			all.Write(buf[:n])
			if waiting && bytes.Contains(all.Bytes(), []byte(question)) {
				waiting = false
				close(questioned)
			}
			if err != nil { // EIO: the program has ended
				seen <- all.String()
				return
			}
		}
	}()
	select {
	case <-questioned:
	case err := <-ended:
		t.Fatalf("it ended without a question: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no question came")
	}
	asked()
	time.Sleep(300 * time.Millisecond) // long enough for a spinner to cover the question
	if _, err := io.WriteString(person, typed); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
		t.Fatalf("%q does not end it", typed)
	}
	text = <-seen
	return cmd.ProcessState.ExitCode(), text
}

// A bulk command on a terminal asks once its bar is gone, and an interrupt at the
// question ends it without a change.
func TestConfirmOnATerminal(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	t.Setenv("NATS_URL", e.URL())
	engine(t, strings.Repeat("{\"type\":\"email\"}\n", 12), "submit", "--lines", "-").wants(t, 0)
	for _, of := range []struct {
		typed, says string
		code        int
	}{{"\x03", "nothing was changed", 1}, {"n\n", "nothing was changed", 1}, {"y\n", "14 items cancelled", 0}} {
		// What is submitted after the question is not cancelled.
		code, text := converse(t, "[y/N] ", of.typed, func() { engine(t, "", "submit", "email").wants(t, 0) }, "cancel", "--type", "email")
		_, after, _ := strings.Cut(text, "[y/N] ")
		if code != of.code || !strings.Contains(after, of.says) {
			t.Errorf("%q: exit code %d, and after the question %q", of.typed, code, after)
		}
		if answer, _, _ := strings.Cut(after, "\n"); strings.Contains(answer, "counted") {
			t.Errorf("%q: a bar is drawn over the question: %q", of.typed, after)
		}
	}
}

// A bulk command for a type that does not exist fails, as pause does for a typo.
func TestBulkOfAnUnknownType(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	t.Setenv("NATS_URL", e.URL())
	for _, args := range []string{"cancel --type nope --yes", "replay --dead --type nope --yes", "purge --type nope --yes", "reschedule --type nope --now --yes", "cancel --type nope --dry-run"} {
		engine(t, "", strings.Fields(args)...).wants(t, 1, "there is no type nope", "not_found")
	}
	engine(t, "", "cancel", "--type", "No Such", "--yes").wants(t, 2, "bad_type")
	engine(t, "", "types", "pause", "later").wants(t, 0, "later is paused") // before its first item
	engine(t, "", "types").wants(t, 0, "later", "paused")
	engine(t, "", "cancel", "--type", "later", "--yes").wants(t, 0, "0 items cancelled")
}

// What is destroyed for good is named once more before.
func TestRemoveNamespaceOnATerminal(t *testing.T) {
	need.NoReload(t)
	url := realEngine(t)
	engine(t, "", "namespaces", "add", "acme", "--server", url).wants(t, 0)
	for _, of := range []struct {
		typed, says string
		code        int
	}{{"\x03", "nothing was changed", 1}, {"y\n", "nothing was changed", 1}, {"acme\n", "removed acme", 0}} {
		code, text := converse(t, "to go on: ", of.typed, func() {}, "namespaces", "remove", "acme", "--force", "--server", url)
		before, after, _ := strings.Cut(text, "to go on: ")
		if code != of.code || !strings.Contains(after, of.says) || !strings.Contains(before, "namespace acme (") {
			t.Errorf("%q: exit code %d, %q", of.typed, code, text)
		}
	}
	engine(t, "", "namespaces", "show", "acme", "--server", url).wants(t, 1, "acme")
}
