package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// Items wait while the engine is killed, before and behind their signals, and their workers
// are killed with what they were given. Each signal that was accepted reaches one outcome.
func TestWaitsOutliveKills(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.order]\nlease = \"1s\"\n[types.order.backoff]\ninitial = \"10ms\"\n")
	script := filepath.Join(t.TempDir(), "order.sh")
	// The first run that is given the signal hangs, until its worker is killed.
	text := `[ -n "$WORK_WAITED" ] || { echo '{"wait":{"names":["paid"],"for":"1h"}}' >&3; exit 0; }
if mkdir ` + filepath.Dir(script) + `/hung 2>/dev/null; then sleep 600; fi
cat "$WORK_SIGNALS"`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := begin(t, s.url(), "work", "order", "--", "sh", script)
	const n = 6
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.submit(streamwright.Item{Type: "order"})
	}
	waits := func(id string) bool {
		it, err := s.c.Get(context.Background(), id)
		return err == nil && it.WaitsFor != nil
	}
	eventually(t, "all wait", func() bool {
		for _, id := range ids {
			if !waits(id) {
				return false
			}
		}
		return true
	})
	restart := func() {
		s.p.kill()
		s.begin()
		eventually(t, "the engine is ready again", func() bool { return strings.Contains(s.p.log.String(), "engine ready") })
	}
	restart()
	send := func(i int, id string) {
		sig := streamwright.Signal{Name: "paid", Payload: i, MsgID: fmt.Sprint("payment-", i)}
		for range 2 { // a repeat is the same signal
			if _, err := s.c.Signal(context.Background(), id, sig); err != nil && !errors.Is(err, &events.Error{Code: events.CodeEnded}) {
				t.Fatal(err)
			}
		}
	}
	send(0, ids[0])
	eventually(t, "the run that is given the signal hangs", func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(script), "hung"))
		return err == nil
	})
	worker.kill()
	for i, id := range ids[1:] {
		send(i+1, id)
	}
	restart()
	begin(t, s.url(), "work", "order", "--", "sh", script)
	for i, id := range ids {
		it := s.wait(id, events.StateCompleted)
		if it.UnreadSignals != 0 || strings.Count(string(it.Result), `"number"`) != 1 || !strings.Contains(string(it.Result), fmt.Sprintf(`"payload":%d`, i)) {
			t.Errorf("item %d ended with %s, %d signals unread", i, it.Result, it.UnreadSignals)
		}
	}
	cli(t, s.url(), "verify").wants(t, 0, "equal: ")
}
