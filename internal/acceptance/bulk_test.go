package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Commands about many items say what they would touch, and touch nothing before
// somebody has agreed. A patch changes each item's own params.
func TestBulkCommands(t *testing.T) {
	s := serve(t, "")
	url := s.url()
	begin(t, url, "work", "email", "--", "sh", "-c", "exit 65")
	ids := map[string]int{}
	for n := range 3 {
		id := s.submit(streamwright.Item{Type: "email", Params: map[string]any{"n": n, "from": "nobody", "to": "ada"}})
		ids[id] = n
	}
	for id := range ids {
		s.wait(id, events.StateDead)
	}
	for range 2 {
		s.submit(streamwright.Item{Type: "report"})
	}

	cli(t, url, "cancel", "--type", "report").wants(t, 2, "--dry-run", "--yes")
	cli(t, url, "reschedule", "--type", "report", "--priority", "high").wants(t, 2, "--yes")
	cli(t, url, "purge", "--type", "email").wants(t, 2, "--yes")
	cli(t, url, "replay", "--dead", "--type", "email", "--params", `{}`).wants(t, 2, "--yes")
	cli(t, url, "cancel", "--type", "report", "--dry-run").wants(t, 0, "2 items would be cancelled", "report  2", "such as")
	cli(t, url, "replay", "--dead", "--type", "email", "--params", `{"x":1}`, "--dry-run").wants(t, 0, "3 items would be queued again", "all of them with the same params")
	cli(t, url, "replay", "--dead", "--type", "email", "--dry-run", "--json").wants(t, 0, `"matched":3`, `"types":{"email":3}`)
	if n := len(strings.Split(strings.TrimSpace(cli(t, url, "list", "--type", "report", "--state", "queued", "--json").wants(t, 0).out), "\n")); n != 2 {
		t.Errorf("%d reports are queued still", n)
	}
	cli(t, url, "cancel", "--type", "report", "--yes").wants(t, 0, "2 items cancelled")

	seen := 0
	for line := range strings.Lines(cli(t, url, "dead", "--type", "email", "--json").wants(t, 0).out) {
		var it streamwright.WorkItem
		fromJSON(t, []byte(line), &it)
		if want := fmt.Sprintf(`{"from":"nobody","n":%d,"to":"ada"}`, ids[it.ID]); string(it.Params) != want {
			t.Errorf("dead shows the params %s, want %s", it.Params, want)
		}
		seen++
	}
	if seen != 3 {
		t.Errorf("%d are dead", seen)
	}

	cli(t, url, "replay", "--dead", "--type", "email", "--patch", `{"from":"shop","to":null}`, "--params", "{}", "--yes").wants(t, 2, "give one of them")
	cli(t, url, "replay", "--dead", "--type", "email", "--patch", `{"from":`, "--yes").wants(t, 2, `the patch {"from": is not JSON`, "bad_params")
	cli(t, url, "types", "pause", "email").wants(t, 0)
	cli(t, url, "replay", "--dead", "--type", "email", "--patch", `[1]`, "--dry-run").wants(t, 2, "the patch is no JSON object")
	cli(t, url, "replay", "--dead", "--type", "email", "--patch", `{"from":"shop","to":null}`, "--yes").wants(t, 0, "3 items queued again")
	for id, n := range ids {
		if got, want := string(s.get(id).Params), fmt.Sprintf(`{"from":"shop","n":%d}`, n); got != want {
			t.Errorf("patched to %s, want %s", got, want)
		}
	}
	cli(t, url, "verify").wants(t, 0, "equal")
}

// One item is replayed with a patch by any program.
func TestReplayWithAPatch(t *testing.T) {
	r := inMemory(t, "")
	got := make(chan string, 10)
	r.worker(workers.Config{}, "email", func(_ context.Context, it *workers.RawItem) (any, error) {
		got <- string(it.Raw)
		return nil, workers.Permanent(fmt.Errorf("no"))
	})
	id := r.submit(streamwright.Item{Type: "email", Params: json.RawMessage(`{"to":"ada","n":1.50}`)})
	r.wait(id, events.StateDead)
	if first := recv(t, "the first run", got); first != `{"to":"ada","n":1.50}` {
		t.Errorf("params %s", first)
	}
	if _, err := r.c.Replay(r.ctx, id, streamwright.ReplayOptions{Patch: json.RawMessage(`{"to":"grace"}`)}); err != nil {
		t.Fatal(err)
	}
	if second := recv(t, "the second run", got); second != `{"n":1.50,"to":"grace"}` {
		t.Errorf("params %s", second)
	}
	r.wait(id, events.StateDead)
	if _, err := r.c.Replay(r.ctx, id, streamwright.ReplayOptions{Patch: json.RawMessage(`{}`), Params: json.RawMessage(`1`)}); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("params and a patch: %v", err)
	}
	// A patch that is no object would put one document in place of every item's.
	if _, err := r.c.Replay(r.ctx, id, streamwright.ReplayOptions{Patch: json.RawMessage(`[1]`)}); events.CodeOf(err) != events.CodeBadRequest {
		t.Errorf("a patch that is no object: %v", err)
	}
}
