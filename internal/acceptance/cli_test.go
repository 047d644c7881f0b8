package acceptance

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A user's tour by the command line alone.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, "[defaults]\nbackoff = {initial = \"10ms\", max = \"20ms\"}\n")
	url := s.url()
	cli(t, url, "status").wants(t, 0, "durability interval", "workers 0")

	var sub wire.Submitted
	fromJSON(t, []byte(cli(t, url, "submit", "hash", `{"n":1}`, "--json", "--label", "k=v", "--tenant", "acme", "--dedup-key", "d").wants(t, 0).out), &sub)
	cli(t, url, "submit", "hash", `{"n":1}`, "--dedup-key", "d").wants(t, 0, "merged into "+sub.ID)
	cli(t, url, "list", "--state", "queued", "--label", "k=v", "--tenant", "acme").wants(t, 0, sub.ID)
	cli(t, url, "list", "--state", "queued", "--label", "k=w").wants(t, 0, "no items")
	w := begin(t, url, "work", "hash", "--id", "hasher", "--", "sha256sum")
	cli(t, url, "submit", "hash", `{"n":2}`, "--wait").wants(t, 0, "completed in")
	s.wait(sub.ID, events.StateCompleted)
	cli(t, url, "show", sub.ID).wants(t, 0, "completed", "hasher", "k=v", "acme")
	cli(t, url, "workers").wants(t, 0, "hasher", "hash")
	var kinds []string
	for line := range strings.Lines(cli(t, url, "history", sub.ID, "--json").wants(t, 0).out) {
		var ev wire.HistoryEvent
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, `{"totals"`) {
			break // the last line
		}
		kinds = append(kinds, ev.Kind.String())
	}
	if got := fmt.Sprint(kinds); got != "[created queued claimed running completed]" && got != "[created queued merged claimed running completed]" {
		t.Errorf("history %s", got)
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	// What fails for good, and what is cancelled while it runs.
	bad := begin(t, url, "work", "bad", "--", "sh", "-c", "echo unusable >&2; exit 65")
	cli(t, url, "submit", "bad", "--wait").wants(t, 1, "dead after 1 attempt:", "unusable", "data_error")
	if code := bad.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	begin(t, url, "work", "hang", "--", "sh", "-c", "sleep 1000 & echo $! > "+dir+"/child; wait")
	id := s.submit(streamwright.Item{Type: "hang"})
	child := pidIn(t, filepath.Join(dir, "child"))
	cli(t, url, "cancel", id).wants(t, 0, "cancelled (its worker is being told to stop)")
	eventually(t, "the cancelled child is dead", func() bool { return !alive(child) })
	cli(t, url, "cancel", id).wants(t, 0, "cancelled")

	// Order and settings.
	later := s.submit(streamwright.Item{Type: "later"})
	cli(t, url, "reschedule", later, "--delay", "1h", "--priority", "high").wants(t, 0, "due in")
	cli(t, url, "types", "set", "later", "capacity=3", "lease=5s").wants(t, 0, "later", "api")
	cli(t, url, "types").wants(t, 0, "hash", "later")
	cli(t, url, "types", "remove", "later").wants(t, 1, "wrong_state", "1 queued")
	cli(t, url, "types", "set", "emial", "capacity=3").wants(t, 0)
	cli(t, url, "types", "remove", "emial").wants(t, 0, "type emial is removed")
	cli(t, url, "types", "remove", "emial").wants(t, 1, "not_found")
	cli(t, url, "submit", "bulk", "--lines", "no-such-file").wants(t, 1, "no-such-file")
	cli(t, url, "verify").wants(t, 0, "equal")
	cli(t, url, "rebuild").wants(t, 0, "rebuilt")
	cli(t, url, "verify", "--json").wants(t, 0, `"equal":true`)
	cli(t, url, "show", takenID).wants(t, 1, "not_found")
}

// A thousand submits of one key with a crash in their midst still make one item.
func TestThousandSubmitsOfOneKeyWithACrash(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	const n, callers = 1000, 50
	got := make([]streamwright.Submitted, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	half := make(chan struct{})
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n; i += callers {
				got[i], errs[i] = s.c.Submit(s.ctx, streamwright.Item{Type: "email", Params: i, DedupKey: "one", Source: fmt.Sprint(i)})
				if i == n/2 {
					close(half)
				}
			}
		})
	}
	recv(t, "half of the answers", half)
	s.p.kill()
	s.begin()
	wg.Wait()
	queued, merged := "", 0
	for i, a := range got {
		it := s.get(a.ID)
		switch {
		case errs[i] != nil:
			t.Fatal(errs[i])
		case it.Provenance.Source != fmt.Sprint(i):
			t.Errorf("item %s is said to come from %q, it came from %d", a.ID, it.Provenance.Source, i)
		case it.State == events.StateQueued && queued == "":
			queued = a.ID
		case it.State == events.StateMerged:
			merged++
		default:
			t.Errorf("item %s is %s", a.ID, it.State)
		}
	}
	if it := s.get(queued); merged != n-1 || it.MergedCount != n-1 {
		t.Errorf("%d merged, the item counts %d", merged, it.MergedCount)
	}
	s.verify()
}
