package lograte

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Three minutes of five failures a second cost a line when they begin, one a minute, and one
// when they end.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		r := NewTrouble(slog.New(slog.NewTextHandler(&text, nil)), "intake")
		for range 3 * 60 * 5 {
			r.Failed(errors.New("no quorum"))
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(Quiet)
		synctest.Wait()
		for what, n := range map[string]int{"trying again until it works": 1, "still fails": 2, "works again": 1, "\n": 4} {
			if got := strings.Count(text.String(), what); got != n {
				t.Errorf("%d times %q, want %d:\n%s", got, what, n, text.String())
			}
		}
		r.Failed(errors.New("again"))
		r.Stop()
		time.Sleep(time.Hour)
		if got := strings.Count(text.String(), "\n"); got != 5 {
			t.Errorf("%d lines:\n%s", got, text.String())
		}
	})
}
