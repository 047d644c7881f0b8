//go:build linux || darwin

package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// said keeps what a child has reported.
type heard struct {
	ran
	progress    []string
	checkpoints []string
	saveErr     error
}

// report runs a shell script as a handler, and keeps what it reports.
func report(t *testing.T, script string, change func(*workers.RawItem), opts ...Option) *heard {
	t.Helper()
	h := &heard{}
	item := newItem("{}", &h.ran)
	item.OnProgress = func(percent int, message string) {
		h.progress = append(h.progress, strings.TrimSpace(fmt.Sprint(percent, " ", message)))
	}
	item.OnCheckpoint = func(_ context.Context, doc json.RawMessage) error {
		h.checkpoints = append(h.checkpoints, string(doc))
		return h.saveErr
	}
	if change != nil {
		change(item)
	}
	h.Outcome = workers.Invoke(t.Context(), Handler([]string{"sh", "-c", script}, opts...), item)
	return h
}

func TestReportsFromAChild(t *testing.T) {
	h := report(t, `
[ "$WORK_REPORT_FD" = 3 ] || exit 9
echo '{"progress":10,"message":"ten"}' >&3
echo '{"checkpoint":{"page":1}}' >&3
printf '{"progress":20}' >&3
echo >&3; echo >&3
printf '{"checkpoint":[2]}' >&3
echo done`, nil)
	if h.Err != nil || string(h.Result) != `"done"` {
		t.Fatalf("%s, %v", h.Result, h.Err)
	}
	if got := fmt.Sprint(h.progress, h.checkpoints); got != `[10 ten 20] [{"page":1} [2]]` {
		t.Errorf("got %s", got)
	}
}

func TestEndsThatAChildAsksFor(t *testing.T) {
	for _, c := range []struct {
		script string
		check  func(h *heard) bool
	}{
		{`echo '{"snooze":"30s","reason":"busy"}' >&3; echo result`, func(h *heard) bool {
			return h.Snooze != nil && h.Snooze.Delay == 30*time.Second && h.Snooze.Reason == "busy" && h.Result == nil
		}},
		{`echo '{"snooze":"30s"}' >&3; echo '{"snooze":"1h"}' >&3`, func(h *heard) bool { return h.Snooze != nil && h.Snooze.Delay == time.Hour }},
		{`echo '{"snooze":"30s"}' >&3; exit 1`, func(h *heard) bool { return h.Code == "exit_1" && h.Retryable }},
		{`echo '{"snooze":"30s"}' >&3; exit 75`, func(h *heard) bool { return h.Code == FailRetryLater && h.RetryAfter == 0 }},
		{`echo '{"retry_after":"10s"}' >&3; exit 75`, func(h *heard) bool {
			return h.Code == FailRetryLater && h.Retryable && h.RetryAfter == 10*time.Second
		}},
		{`echo '{"retry_after":"10s"}' >&3`, func(h *heard) bool {
			return h.Code == FailRetryLater && h.Retryable && h.RetryAfter == 10*time.Second
		}},
		{`echo '{"retry_after":"10s"}' >&3; exit 65`, func(h *heard) bool { return h.Code == FailDataError && !h.Retryable }},
		{`echo '{"spawn":{"children":[{"type":"a","params":{"n":1},"priority":8},{"type":"b"}],"continuation":"join","child_policy":"continue"}}' >&3`, func(h *heard) bool {
			s := h.Spawn
			return s != nil && len(s.Children) == 2 && s.Children[0].Type == "a" && *s.Children[0].With.Priority == 8 && s.Continuation == "join" && s.Continues && s.Policy == events.ChildContinue
		}},
		{`echo '{"spawn":{"children":[{"type":"a"}],"continuation":true}}' >&3`, func(h *heard) bool { return h.Spawn != nil && h.Spawn.Continues && h.Spawn.Continuation == "" }},
		{`echo '{"spawn":{"children":[{"type":"a"}]}}' >&3`, func(h *heard) bool { return h.Spawn != nil && !h.Spawn.Continues }},
		{`echo '{"spawn":{"children":[{"type":"A"}]}}' >&3`, func(h *heard) bool { return h.Code == workers.FailBadSpawn && !h.Retryable }},
	} {
		if h := report(t, c.script, nil); !c.check(h) {
			t.Errorf("%s\ngot %+v, log %q", c.script, h.Outcome, h.log)
		}
	}
}

// Lines that are no reports are logged; those that have asked for an end fail
// the item, which would otherwise count as done.
func TestBadReportLines(t *testing.T) {
	for line, fails := range map[string]bool{
		`{"progress":40`:                         false,
		`{"progres":40}`:                         false,
		`{"progress":101}`:                       false,
		`{"progress":1,"checkpoint":2}`:          false,
		`{"progress":1} {"progress":2}`:          false,
		`{}`:                                     false,
		`forty`:                                  false,
		`{"snooze":"soon"}`:                      true,
		`{"snooze":30}`:                          true,
		`{"retry_after":"-1s"}`:                  true,
		`{"spawn":{"kids":[]}}`:                  true,
		`{"spawn":{"children":[],"continue":1}}`: true,
		`{"spawn":{"children":[{"type":"a"}],"continuation":7}}`: true,
	} {
		h := report(t, "echo '"+line+"' >&3; echo ok", nil)
		if fails != (h.Code == FailBadReport) || fails == (h.Err == nil) || h.Retryable {
			t.Errorf("%s: %+v", line, h.Outcome)
		}
		if len(h.log) != 1 || !strings.Contains(h.log[0], "counts for nothing") || len(h.progress) > 0 {
			t.Errorf("%s: log %q, progress %v", line, h.log, h.progress)
		}
	}
	h := report(t, `head -c 9000000 /dev/zero | tr '\0' x >&3; echo >&3; echo '{"progress":5}' >&3`, nil)
	if h.Code != FailBadReport || len(h.progress) != 1 || len(h.log) != 1 {
		t.Errorf("a line that is too long: %+v, %v, %d log lines", h.Outcome, h.progress, len(h.log))
	}
	h = report(t, `echo '{"checkpoint":1}' >&3; echo ok`, func(it *workers.RawItem) {
		it.OnCheckpoint = func(context.Context, json.RawMessage) error { return errors.New("no room") }
	})
	if h.Err != nil || len(h.log) != 1 || !strings.Contains(h.log[0], "no room") {
		t.Errorf("a checkpoint that is refused: %+v, %q", h.Outcome, h.log)
	}
}

func TestAContinuationsChildren(t *testing.T) {
	id, _ := events.ParseID("01JD3V6YB2M4C9W8ZK5T7QXRNE")
	t.Setenv("WORK_CHILDREN", "/nowhere") // this test may itself be a child
	h := report(t, `echo "$WORK_CONTINUATION|$WORK_CHECKPOINT|$WORK_CHILDREN" >&2; cat "$WORK_CHILDREN"`, func(it *workers.RawItem) {
		it.Checkpoint = json.RawMessage(`{"at":3}`)
		it.Continuation = &workers.Continuation{Name: "join", Children: []workers.ChildOutcome{
			{Outcome: events.Outcome{ID: id, Type: "a", State: events.StateCompleted, Result: json.RawMessage(`1`)}},
		}}
	})
	if want := `[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","type":"a","state":"completed","result":1}]`; h.Err != nil || string(h.Result) != want {
		t.Fatalf("the child read %s, %v", h.Result, h.Err)
	}
	parts := strings.Split(h.log[0], "|")
	if parts[0] != "join" || parts[1] != `{"at":3}` {
		t.Errorf("environment %q", h.log)
	}
	if _, err := os.Stat(parts[2]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file %s is still there: %v", parts[2], err)
	}
	if h := report(t, `echo "${WORK_CONTINUATION-unset}${WORK_CHILDREN-unset}"`, nil); string(h.Result) != `"unsetunset"` {
		t.Errorf("without a continuation: %s", h.Result)
	}
}

// A descendant that has left the group and keeps the descriptor open delays the end only
// briefly, whether it writes or sleeps.
func TestADescendantKeepsTheDescriptor(t *testing.T) {
	for _, does := range []string{"sleep 100", `while echo "{\"progress\":8}" >&3; do sleep 0.1; done`} {
		began := time.Now()
		h := report(t, `setsid sh -c 'exec >/dev/null 2>&1 </dev/null; `+does+`' & echo '{"progress":7}' >&3; echo ok`, nil, PipeDelay(2*time.Second))
		if h.Err != nil || len(h.progress) == 0 || time.Since(began) > 60*time.Second {
			t.Errorf("%s: %+v, %v, after %v", does, h.Outcome, h.progress, time.Since(began))
		}
	}
}
