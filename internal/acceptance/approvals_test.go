package acceptance

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Two people answer each question at once while the engine is killed: one of them counts, whoever
// it is told so, and each reminder that was due is one item.
func TestAnswersOutliveKills(t *testing.T) {
	t.Parallel()
	s := serve(t, "[types.expense]\nlease = \"1s\"\n[types.expense.backoff]\ninitial = \"10ms\"\n")
	s.hand(workers.Config{ID: "w1", Concurrency: 8}, "expense", func(_ context.Context, it *workers.RawItem) (any, error) {
		a, ok, err := workers.AnswerOf[any](it, "ok")
		if ok || err != nil {
			return a.Choice, err
		}
		return nil, workers.Ask("ok", workers.Question{Title: "Pay?", Remind: workers.Reminders{Every: time.Second, Type: "remind", Most: 2}}).For(time.Hour)
	})
	const n = 8
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.submit(streamwright.Item{Type: "expense"})
	}
	reminders := func() (list []streamwright.WorkItem) {
		page, err := s.c.List(context.Background(), streamwright.Filter{Type: "remind"})
		if err != nil {
			return nil
		}
		return page.Items
	}
	eventually(t, "some are reminded of", func() bool { return len(reminders()) > n/2 })
	restart := func() {
		s.p.kill()
		s.begin()
		eventually(t, "the engine is ready again", func() bool { return strings.Contains(s.p.log.String(), "engine ready") })
	}
	restart()
	eventually(t, "each is reminded of as often as it said", func() bool { return len(reminders()) == 2*n })

	var both sync.WaitGroup
	counted := make([][2]bool, n)
	for i, id := range ids {
		for j, a := range []streamwright.Answer{{Number: 1, Choice: "approve", By: "ada"}, {Number: 1, Choice: "reject", By: "bob"}} {
			both.Go(func() {
				_, err := s.c.Answer(context.Background(), id, a)
				if counted[i][j] = err == nil; err != nil && !errors.Is(err, &events.Error{Code: events.CodeAlreadyCompleted}) {
					t.Errorf("item %d: %v", i, err)
				}
			})
		}
		if i == n/2 {
			restart()
		}
	}
	both.Wait()
	for i, id := range ids {
		it := s.wait(id, events.StateCompleted)
		want := map[[2]bool]string{{true, false}: `"approve"`, {false, true}: `"reject"`}[counted[i]]
		if string(it.Result) != want {
			t.Errorf("item %d: %s, answers counted: %v", i, it.Result, counted[i])
		}
	}
	if got := len(reminders()); got != 2*n {
		t.Errorf("%d reminders, want %d", got, 2*n)
	}
	cli(t, s.url(), "verify").wants(t, 0, "equal: ")
}
