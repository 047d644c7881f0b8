package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
	"github.com/streamwright/streamwright/wire"
)

// A stack is shown with an item, each line on its own, and not in lists.
func TestStacksAreShownInLines(t *testing.T) {
	var out bytes.Buffer
	a := &app{App: console.App{Out: &out}}
	it := streamwright.WorkItem{Error: &wire.ItemError{Code: "panic", Message: "the handler panicked: oh no\n\ngoroutine 1 [running]:\nmain.f()\n\t/src/main.go:7 +0x1\x1b[31m"}}
	fields{app: a}.failure(it)
	want := "error           the handler panicked: oh no (panic, not retryable)\n" +
		"  goroutine 1 [running]:\n  main.f()\n      /src/main.go:7 +0x1\\x1b[31m\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for _, style := range []console.Style{{}, console.TerminalStyle} {
		if cell := style.Clip(console.Failure(it.Error), 60); strings.Contains(cell, "goroutine") {
			t.Errorf("a list has the stack: %q", cell)
		}
	}
}

// An interrupted worker says how many runs it waits for, and until when.
func TestAnInterruptedWorkerSaysWhatItWaitsFor(t *testing.T) {
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.Local)
	for runs, want := range map[int]string{0: "nothing runs", 1: "1 run to finish, until 12:00:30", 3: "3 runs to finish, until 12:00:30"} {
		if got := waitsFor(runs, 30*time.Second, at); !strings.Contains(got, want) {
			t.Errorf("%d runs: %q", runs, got)
		}
	}
}
