//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestCheck(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "secret")
	long := strings.Repeat("x", wire.MaxCheckError-1)
	for _, c := range []struct{ script, want string }{
		{"exit 0", ""},
		{"echo noise >&2; exit 0", ""},
		{"exit 3", "exit status 3"},
		{"kill -KILL $$", "signal: killed"},
		{"echo not this; echo nor this >&2; echo ' disk full ' >&2; echo ' ' >&2; echo >&2; exit 1", "disk full"},
		{"printf 'no end' >&2; exit 1", "no end"},
		{"echo " + long + "€ >&2; exit 1", long}, // the sign does not fit
		{"yes noise | head -n 10000 >&2; echo last >&2; echo >&2; exit 1", "last"},
		{"cat; echo \"[$NATS_PASSWORD$GIVEN]\" >&2; exit 1", "[yes]"},
	} {
		got := ""
		if err := Check([]string{"sh", "-c", c.script}, Env("GIVEN=yes"))(t.Context()); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%.60s: got %q, want %q", c.script, got, c.want)
		}
	}
	if err := Check([]string{"no-such-program"})(t.Context()); err == nil || !strings.Contains(err.Error(), "start no-such-program") {
		t.Errorf("got %v", err)
	}
	if err := Check(nil)(t.Context()); err == nil {
		t.Error("no command passes")
	}
}

// A check that takes too long is killed with its group, whatever it does about signals.
func TestCheckEndsWithItsContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	script := `trap '' TERM; sh -c 'trap "" TERM; echo $$ > $PIDFILE; while :; do sleep 1000; done' & wait`
	go func() { done <- Check([]string{"sh", "-c", script}, Env("PIDFILE="+file), Grace(time.Hour))(ctx) }()
	pid := pidIn(t, file)
	cancel(workers.ErrTimeout)
	select {
	case err := <-done:
		if !errors.Is(err, workers.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the check does not return")
	}
	dead(t, pid)
	if err := Check([]string{"true"})(ctx); !errors.Is(err, workers.ErrTimeout) {
		t.Errorf("a child was started after the context's end: %v", err)
	}
}
