package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/examples/internal/engine"
	"github.com/streamwright/streamwright/workers"
	"github.com/streamwright/streamwright/workers/workertest"
)

// answered waits until the item asks its question of a number, and answers it.
func answered(t *testing.T, ctx context.Context, c *streamwright.Client, id string, number int, a streamwright.Answer) {
	t.Helper()
	asked, n := errors.New("asked"), 0
	err := c.Tail(ctx, streamwright.TailOptions{ID: id, Kinds: []streamwright.Kind{streamwright.KindParked}, FromSeq: 1}, func(streamwright.Event) error {
		if n++; n == number {
			return asked
		}
		return nil
	})
	if !errors.Is(err, asked) {
		t.Fatal(err)
	}
	a.Number, a.By = number, "bob"
	if _, err := c.Answer(ctx, id, a); err != nil {
		t.Fatal(err)
	}
}

// talk asks for a refund, has its questions answered, and returns what the one who asked sees.
func talk(t *testing.T, ctx context.Context, c *streamwright.Client, answers ...streamwright.Answer) string {
	t.Helper()
	r, w := io.Pipe()
	go func() { w.CloseWithError(ask(ctx, c, "refund order 1234, 40 €", w)) }()
	seen := bufio.NewReader(r)
	id, err := seen.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	go func() {
		b, err := io.ReadAll(seen)
		if err != nil {
			t.Error(err)
		}
		text <- string(b)
	}()
	id = strings.TrimSpace(id)
	for i, a := range answers {
		answered(t, ctx, c, id, i+1, a)
	}
	got := <-text
	if all, err := c.Output(ctx, id); err != nil || string(all) != got {
		t.Errorf("the output is %q, %v; who followed it has seen %q", all, err, got)
	}
	return strings.ReplaceAll(got, " by all. ", " by bob. ") // where people log in, it is the login's name
}

// What is said until somebody is asked, and once the tool was used.
const (
	asks = "user: refund order 1234, 40 €\nassistant: Order 1234 is paid, so 40 € may go back. I ask before I do it.\n"
	done = "assistant: It is done. Is there anything else?\n"
)

func TestAssistant(t *testing.T) {
	for name, test := range map[string]struct {
		answers []streamwright.Answer
		seen    string
		paid    []Refund
	}{
		"approve": {
			[]streamwright.Answer{{Choice: workers.ChoiceApprove}},
			asks + "approver: approve by bob. \ntool: 40 € back for order 1234\n" + done,
			[]Refund{{"1234", 40}},
		},
		"edit": {
			[]streamwright.Answer{{Choice: workers.ChoiceEdit, Value: Refund{"1234", 20}, Comment: "half"}},
			asks + "approver: edit by bob. half\ntool: 20 € back for order 1234\n" + done,
			[]Refund{{"1234", 20}},
		},
		"reject": {
			[]streamwright.Answer{{Choice: workers.ChoiceReject, Comment: "he has had it"}},
			asks + "approver: reject by bob. he has had it\nassistant: Then I leave it.\n",
			nil,
		},
		"reject, and approve what the model makes of it": {
			[]streamwright.Answer{{Choice: workers.ChoiceReject, Comment: "30 € at most"}, {Choice: workers.ChoiceApprove}},
			asks + "approver: reject by bob. 30 € at most\nassistant: Order 1234 is paid, so 30 € may go back. I ask before I do it.\n" +
				"approver: approve by bob. \ntool: 30 € back for order 1234\n" + done,
			[]Refund{{"1234", 30}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := engine.Context(t)
			c, s := engine.Client(t, ctx), new(shop)
			w, err := assistant{fakeModel(0), s.refund}.start(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop(context.Background())
			if seen := talk(t, ctx, c, test.answers...); seen != test.seen {
				t.Errorf("got\n%swant\n%s", seen, test.seen)
			}
			if paid := slices.Collect(maps.Values(s.paid)); !slices.Equal(paid, test.paid) {
				t.Errorf("paid %v, want %v", paid, test.paid)
			}
		})
	}
}

// A worker ends when it has paid, before anybody knows. The next one pays nothing, and who follows
// the talk sees no difference.
func TestAssistantPaysOnce(t *testing.T) {
	ctx := engine.Context(t)
	c, s := engine.Client(t, ctx), new(shop)
	var calls atomic.Int32
	paid := make(chan struct{})
	x := assistant{fakeModel(0), func(ctx context.Context, key string, r Refund) (string, error) {
		result, err := s.refund(ctx, key, r)
		if calls.Add(1) == 1 {
			close(paid)
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		return result, err
	}}
	first, err := x.start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-paid:
		case <-ctx.Done():
			return
		}
		now, cancel := context.WithCancel(ctx)
		cancel()
		_ = first.Stop(now)
		second, err := x.start(ctx, c)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = second.Stop(context.Background()) })
	}()
	seen := talk(t, ctx, c, streamwright.Answer{Choice: workers.ChoiceApprove})
	<-over
	if want := asks + "approver: approve by bob. \ntool: 40 € back for order 1234\n" + done; seen != want {
		t.Errorf("got\n%swant\n%s", seen, want)
	}
	if calls.Load() != 2 || len(s.paid) != 1 {
		t.Errorf("%d calls, paid %v", calls.Load(), s.paid)
	}
}

// A run that is repeated has the answer to the question before, which is none to this one.
func TestAssistantAsksForEachAct(t *testing.T) {
	x := assistant{refund: func(context.Context, string, Refund) (string, error) { panic("nobody has agreed") }}
	got := workertest.RunRaw(t, workers.Typed(x.help), Request{},
		workertest.Checkpoint(Talk{make([]Message, 5), &Refund{"1234", 90}}),
		workertest.Answered("act-2", workers.Answer[any]{Choice: workers.ChoiceApprove}))
	if got.Wait == nil || got.Wait.Names()[0] != "act-5" {
		t.Errorf("got %+v", got)
	}
}

// What a run repeats is shown once. If it says something else than the one before, all of it is.
func TestScreen(t *testing.T) {
	var out strings.Builder
	s := screen{out: &out}
	for _, text := range []string{"^one ", "two ", "^on", "e two ", "three", "^one ", "four"} {
		var chunk streamwright.OutputChunk
		chunk.Text, chunk.Reset = strings.CutPrefix(text, "^")
		if err := s.show(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if want := "one two three\n(once more)\none four"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
