package room

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The marks at which work is refused, and at which nothing new is begun.
func TestRoomMarks(t *testing.T) {
	free, failed := uint64(100), ""
	var told []string
	restarts := 0
	s := newWatch(Config{
		Dir: "x", Least: 100, Log: slog.New(slog.DiscardHandler), Free: func(string) (uint64, error) { return free, nil },
		Failed: func() string { return failed },
		Restart: func() error {
			restarts++
			failed = ""
			return nil
		},
	})
	end := s.Listen(func(full bool, hold string) { told = append(told, fmt.Sprint(full, hold != "")) })
	for i, step := range []struct {
		free       uint64
		failed     string
		told       string
		restarts   int
		full, hold bool
	}{
		{free: 100},
		{free: 99, told: "true false", full: true},
		{free: 50, full: true},
		{free: 49, told: "true true", full: true, hold: true},
		{free: 0, failed: "no space left on device", full: true, hold: true},
		{free: 74, full: true, hold: true}, // it does not flicker
		{free: 75, told: "true false", full: true, restarts: 1},
		{free: 100, told: "false false", restarts: 1},
		{free: 100, failed: "write error", restarts: 1}, // not again at once
	} {
		free, told = step.free, nil
		if step.failed != "" {
			failed = step.failed
		}
		s.Look()
		f := s.Full()
		if full, hold := f != nil, f != nil && f.Hold; full != step.full || hold != step.hold || strings.Join(told, ";") != step.told || restarts != step.restarts {
			t.Errorf("%d: %d free: full %v, hold %v, told %v, %d restarts", i, step.free, full, hold, told, restarts)
		}
	}
	end()
	s.nextRestart = time.Now()
	if s.Look(); restarts != 2 {
		t.Errorf("%d restarts", restarts)
	}

	// In a cluster, JetStream is switched off by a full disk: then nobody says what it uses.
	s.c.Used = func() (uint64, uint64, bool) { return 0, 1000, failed == "" }
	free, failed = 0, "JetStream is switched off"
	s.nextRestart = time.Now()
	if s.Look(); restarts != 2 {
		t.Error("the server was restarted on a full disk")
	}
	free = 100
	if s.Look(); restarts != 3 {
		t.Error("there is room again, and the server was not restarted")
	}
	if s.Look(); s.Full() != nil {
		t.Error("there is room again, and the alarm stays")
	}
}
