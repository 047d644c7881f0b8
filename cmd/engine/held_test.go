package main

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
)

func TestHeld(t *testing.T) {
	t.Setenv("NATS_URL", realEngine(t))
	engine(t, "", "held", "check", "project 17").wants(t, 1, "holds the dedup key", "not_found")
	engine(t, "", "held", "Check", "project 17").wants(t, 2, "bad_type")
	engine(t, "", "held", "check").wants(t, 2, "--help")

	watched := func(args ...string) (next func() string, stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		out := make(lineWriter, 16)
		code := make(chan int, 1)
		var errs bytes.Buffer
		go func() {
			code <- run(ctx, append([]string{"held", "check", "project 17", "--watch"}, args...), nil, out, &errs)
		}()
		next = func() string {
			t.Helper()
			select {
			case line := <-out:
				return line
			case <-time.After(30 * time.Second):
				t.Fatal("nothing is told")
				return ""
			}
		}
		return next, func() {
			cancel() // as Ctrl-C does
			if c := <-code; c != 0 {
				t.Errorf("exit code %d; %s", c, errs.String())
			}
		}
	}
	next, stop := watched()
	if got := next(); got != "free\n" {
		t.Errorf("got %q", got)
	}
	var sub wire.Submitted
	if err := json.Unmarshal([]byte(engine(t, "", "submit", "check", "--dedup-key", "project 17", "--json").wants(t, 0).out), &sub); err != nil {
		t.Fatal(err)
	}
	engine(t, "", "held", "check", "project 17").wants(t, 0, sub.ID+"  queued\n") // at once
	engine(t, "", "held", "check", "project 17", "--json").wants(t, 0, `{"id":"`+sub.ID+`","state":"queued"}`)
	if got := next(); got != sub.ID+"  queued\n" {
		t.Errorf("got %q", got)
	}
	nextJSON, stopJSON := watched("--json")
	if got := nextJSON(); got != `{"id":"`+sub.ID+`","state":"queued"}`+"\n" {
		t.Errorf("got %q", got)
	}
	engine(t, "", "cancel", sub.ID).wants(t, 0)
	if got := next(); got != "free\n" {
		t.Errorf("got %q", got)
	}
	if got := nextJSON(); got != "{}\n" {
		t.Errorf("got %q", got)
	}
	stop()
	stopJSON()
}

// lineWriter hands on what is written.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
