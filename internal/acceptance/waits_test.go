package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
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

// A token outlives its run, its worker and the engine: it was recorded before the handler had it.
// Each is answered once, whoever presents it how often, and the attempt that made it may be gone.
func TestTokensOutliveKills(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.order]\nlease = \"1s\"\n[types.order.backoff]\ninitial = \"10ms\"\n")
	given := make(chan [2]string, 100)
	s.hand(workers.Config{ID: "w1", Concurrency: 8}, "order", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Waited != nil {
			return it.Waited.Signals, nil
		}
		token, err := workers.Token(ctx, "paid")
		if err != nil {
			return nil, err
		}
		if given <- [2]string{it.ID.String(), token}; it.Attempt == 1 {
			return nil, errors.New("the next attempt makes another")
		}
		return nil, workers.Wait("paid").For(time.Hour)
	})
	const n = 6
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.submit(streamwright.Item{Type: "order"})
	}
	tokens := map[string][]string{}
	take := func() {
		of := <-given
		tokens[of[0]] = append(tokens[of[0]], of[1])
	}
	for range n {
		take()
	}
	s.p.kill()
	s.begin()
	eventually(t, "each item waits", func() bool {
		for _, id := range ids {
			if it, err := s.c.Get(context.Background(), id); err != nil || it.WaitsFor == nil {
				return false
			}
		}
		return true
	})
	for len(given) > 0 {
		take()
	}
	present := func(token string, result any) error {
		return s.c.PresentToken(context.Background(), token, streamwright.TokenResult{Result: result})
	}
	for i, id := range ids {
		if len(tokens[id]) < 2 {
			t.Fatalf("item %d has made %d tokens", i, len(tokens[id]))
		}
		token := tokens[id][i%2] // of its first attempt, or of its second
		for round := range 2 {
			if err := present(token, i); err != nil {
				t.Errorf("item %d: %v", i, err)
			}
			if i == n/2 && round == 0 {
				s.p.kill()
				s.begin()
			}
		}
		if err := present(token, -1); !errors.Is(err, &events.Error{Code: events.CodeAlreadyCompleted}) {
			t.Errorf("another answer: %v", err)
		}
	}
	for i, id := range ids {
		it := s.wait(id, events.StateCompleted)
		if strings.Count(string(it.Result), `"number"`) != 1 || !strings.Contains(string(it.Result), fmt.Sprintf(`"payload":%d`, i)) {
			t.Errorf("item %d ended with %s", i, it.Result)
		}
		if err := present(tokens[id][1-i%2], i); !errors.Is(err, &events.Error{Code: events.CodeEnded}) {
			t.Errorf("the other token after the end: %v", err)
		}
	}
	cli(t, s.url(), "verify").wants(t, 0, "equal: ")
}
