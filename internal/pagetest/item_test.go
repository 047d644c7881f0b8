package pagetest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

func TestAnItemIsShown(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	t.Run("completed", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.completed)
		p.see(".item-state", "completed")
		p.see(".panel-params", `"order": 12345678901234567890`) // as it was submitted, not rounded
		p.see(".panel-params", `"amount": 1.50`)
		p.see(".panel-result", `"accepted": true`)
		p.see(".log-lines", "connected to smtp.example.org")
		p.see(".facts", "env=prod")
		p.see(".facts", "checkout")
		p.see(".history-table", "completed")
		p.until(`document.querySelector('.timeline-plot').getAttribute('aria-label').includes('running')`)
	})
	t.Run("retried", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.retried)
		p.see(".timeline-labels", "attempt 2")
		p.until(`document.querySelector('.timeline-span.st-failed') && document.querySelector('.timeline-span.kind-running.st-completed')`)
		p.see(".log-lines", "the greeting took too long")
	})
	t.Run("dead", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.dead)
		p.see(".panel-error", "card_declined")
		p.see(".error-text", "was declined by the bank")
		p.see(".item-head", "Edit and replay")
		p.gone(".item-head", "Cancel")
	})
	t.Run("backing off", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.backingOff)
		p.see(".item-state", "backing off")
		p.see(".why", "backing off")
		p.until(`document.querySelector('.timeline-span.kind-backing_off.is-live')`)
	})
	t.Run("tree", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.child)
		p.see(".tree", "report")
		p.until(`document.querySelector('.tree-node.is-here a').textContent === 'transcode'`)
		p.click(".tree", "report")
		p.until(`location.hash.endsWith(` + quote(s.parent) + `)`)
		p.see(".item-state", "waiting")
		p.see(".why", "children")
	})
	t.Run("as it was", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/"+s.dead)
		p.until(`document.querySelectorAll('.history-table tbody tr').length >= 5`)
		p.click(`.history-table tr[data-kind="queued"]`, "")
		p.see(".notice", "As it was then")
		p.see(".item-state", "queued")
		p.gone(".item-head", "Replay")
		p.click(".notice", "as it is now")
		p.see(".item-state", "dead")
	})
	t.Run("none", func(t *testing.T) {
		p := open(t, desktop, w.url+"#/work/01ARZ3NDEKTSV4RRFFQ69G5FAV")
		p.expect("404")
		p.see(".empty", "No such item")
	})
}

func TestAnItemIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	step := make(chan string)
	w.worker("w-1", 1, map[string]workers.Handler{"etl": func(ctx context.Context, it *workers.RawItem) (any, error) {
		for line := range step {
			it.Log("info", line)
			workers.Progress(ctx, 50, line)
		}
		return map[string]int{"rows": 7}, nil
	}})
	id := w.submit(streamwright.Item{Type: "etl"})
	p := open(t, desktop, w.url+"#/work/"+id)
	p.see(".item-state", "running")
	p.see(".panel-log", "live")
	same := p.stays()
	step <- "extracting"
	p.see(".log-lines", "extracting")
	p.see(".facts", "50 %: extracting")
	step <- "loading <b>& all</b>"
	p.see(".log-lines", "loading <b>& all</b>") // as text
	close(step)
	p.see(".item-state", "completed")
	p.see(".panel-result", `"rows": 7`)
	p.see(".panel-log", "2 records")
	same()
}

func TestOutputIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	step := make(chan string)
	w.worker("w-1", 1, map[string]workers.Handler{"answer": func(ctx context.Context, it *workers.RawItem) (any, error) {
		for text := range step {
			if text == "fail" {
				return nil, context.DeadlineExceeded
			}
			if _, err := it.Output().WriteString(text); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}})
	id := w.submit(streamwright.Item{Type: "answer"})
	p := open(t, desktop, w.url+"#/work/"+id)
	p.see(".item-state", "running")
	p.until(`document.querySelector('.panel-output').hidden`)
	step <- "<b>first \xc3"
	p.see(".output-text", "<b>first ")
	step <- "\xbc and more"
	p.see(".output-text", "<b>first ü and more")
	step <- "fail"
	step <- "second"
	p.until(`document.querySelector('.output-text').textContent === 'second'`)
	close(step)
	p.see(".item-state", "completed")
	p.see(".panel-output", "6 bytes")
}

func TestCancelAnItem(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/work/"+s.running)
	p.see(".item-state", "running")
	p.press("c")
	p.see("dialog", "is told to stop")
	p.click("dialog", "Keep it")
	p.gone("dialog", "Cancel")
	if it := w.item(s.running); it.State != events.StateRunning {
		t.Fatalf("kept, but it is %s", it.State)
	}
	p.click(".item-head", "Cancel")
	p.fill("dialog input", "wrong file")
	p.click("dialog", "Cancel the item")
	p.said("its worker has been told")
	p.see(".item-state", "cancelled")
	if it := w.item(s.running); it.State != events.StateCancelled || it.Reason != "wrong file" {
		t.Errorf("the engine has it %s, for the reason %q", it.State, it.Reason)
	}
}

func TestReplayAnItem(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/work/"+s.cancelled)
	p.see(".item-state", "cancelled")
	p.click(".item-head .button-primary", "Replay")
	p.click("dialog", "Replay")
	p.said("Queued again")
	w.await(s.cancelled, events.StateCompleted)
	p.see(".item-state", "completed")
}

func TestEditAndReplayAnItem(t *testing.T) {
	t.Parallel()
	w := start(t)
	fixed := make(chan json.RawMessage, 8)
	w.worker("w-1", 1, map[string]workers.Handler{"charge": func(_ context.Context, it *workers.RawItem) (any, error) {
		if !strings.Contains(string(it.Raw), "visa") {
			return nil, workers.Permanent(context.DeadlineExceeded)
		}
		fixed <- it.Raw
		return "paid", nil
	}})
	id := w.submit(streamwright.Item{Type: "charge", Params: json.RawMessage(`{"card":"none","order":12345678901234567890}`)})
	w.await(id, events.StateDead)
	p := open(t, desktop, w.url+"#/work/"+id)
	p.see(".item-state", "dead")
	p.press("e")
	p.until(`document.querySelector('dialog textarea').value.includes('12345678901234567890')`)
	p.fill("dialog textarea", `{"card": "visa",}`)
	p.see("dialog .field-error", "line 1")
	p.click("dialog", "Replay with these params")
	p.see("dialog .field-error", "line 1") // still open
	if it := w.item(id); it.State != events.StateDead {
		t.Fatalf("what is no JSON was replayed: it is %s", it.State)
	}
	p.fill("dialog textarea", `{"card": "visa", "order": 12345678901234567890, "rate": 1.50}`)
	p.click("dialog", "Replay with these params")
	p.see(".item-state", "completed")
	if got := string(<-fixed); got != `{"card":"visa","order":12345678901234567890,"rate":1.50}` {
		t.Errorf("the handler got %s", got)
	}
	p.see(".history-table", "replayed")
}

func TestRescheduleAnItem(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.submit(streamwright.Item{Type: "email", Delay: 5 * time.Hour})
	p := open(t, desktop, w.url+"#/work/"+id)
	p.see(".item-state", "delayed")
	p.press("m")
	p.click("dialog", "Reschedule")
	p.see("dialog", "Nothing would change")
	p.choose("dialog .field:nth-of-type(1) select", "delay")
	p.fill("dialog input[type=number]", "90")
	p.choose("dialog .field:last-of-type select", "9")
	p.click("dialog", "Reschedule")
	p.said("Rescheduled")
	p.see(".history-table", "rescheduled")
	it := w.item(id)
	if it.Priority != 9 || time.Until(it.AvailableAt) > 91*time.Minute || time.Until(it.AvailableAt) < 88*time.Minute {
		t.Errorf("it has priority %d, and is available in %v", it.Priority, time.Until(it.AvailableAt))
	}
	p.until(`document.querySelectorAll('dialog').length === 0`)
	p.press("m")
	p.choose("dialog .field:nth-of-type(1) select", "now")
	p.click("dialog", "Reschedule")
	p.see(".item-state", "queued")
}

// A panic's stack is nowhere in a table: lists and histories show its first line.
func TestPanicsShowTheirFirstLine(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.worker("w1", 1, map[string]workers.Handler{"email": func(context.Context, *workers.RawItem) (any, error) {
		panic("the template is missing")
	}})
	id := w.submit(streamwright.Item{Type: "email", MaxAttempts: 1})
	if it := w.await(id, events.StateDead); !strings.Contains(it.Error.Message, "goroutine") {
		t.Fatalf("the item's error has no stack: %s", it.Error.Message)
	}
	for _, hash := range []string{"#/work?state=dead", "#/dead", "#/dead?items=1", "#/work/" + id} {
		p := open(t, desktop, w.url+hash)
		p.see("td", "the template is missing")
		p.gone("td", "goroutine")
	}
}
