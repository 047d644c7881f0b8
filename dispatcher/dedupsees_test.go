package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/streamwright/streamwright/dispatcher/dedup"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

// judgeFunc is a hook made of a function.
type judgeFunc func(context.Context, DedupQuestion) (events.Verdict, error)

func (f judgeFunc) Judge(ctx context.Context, q DedupQuestion) (events.Verdict, error) {
	return f(ctx, q)
}

// mergeAlike merges a submission into the first candidate with the same params.
func mergeAlike(q DedupQuestion) (events.Verdict, error) {
	for _, c := range q.Candidates {
		if string(c.Params) == string(q.Submission.Params) {
			id, err := events.ParseID(c.ID)
			return events.Verdict{Policy: events.DedupMerge, Canonical: id}, err
		}
	}
	return events.Verdict{Policy: events.DedupDistinct}, nil
}

// questions notes the candidates of each question.
type questions struct {
	mu  sync.Mutex
	all [][]wire.Item
}

func (n *questions) note(q DedupQuestion) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, q.Candidates)
}

func (n *questions) last() []wire.Item {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[len(n.all)-1]
}

func (n *questions) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all)
}

func candidateIDs(items []wire.Item) (ids []string) {
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}

func submitOf(h *harness, params string) core.Submit {
	return core.Submit{Type: "email", NewID: h.eng.NewID(), Params: json.RawMessage(params)}
}

// What was answered is a candidate of the next submission, however soon that comes.
func TestJudgeSeesWhatWasJustAnswered(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Hook: judgeFunc(func(_ context.Context, q DedupQuestion) (events.Verdict, error) { return mergeAlike(q) })}
	})
	missing := 0
	for i := range 400 {
		c := submitOf(h, fmt.Sprintf(`{"n":%d}`, i))
		first := h.do(c).Decision.ID
		c.NewID = h.eng.NewID()
		if o := h.do(c); o.Item.MergedInto != first {
			missing++
		}
	}
	if missing > 0 {
		t.Fatalf("%d of 400 questions lacked the item that was just answered", missing)
	}
}

// Candidates come last touched first, whatever their states are.
func TestJudgeListsWhatWasTouchedLast(t *testing.T) {
	var asked questions
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Candidates: 3, KeySeparator: "/", Hook: judgeFunc(func(_ context.Context, q DedupQuestion) (events.Verdict, error) {
			asked.note(q)
			return events.Verdict{Policy: events.DedupDistinct}, nil
		})}
	})
	var ids []string
	for i := range 30 {
		ids = append(ids, h.do(submitOf(h, fmt.Sprint(i))).Decision.ID.String())
	}
	h.register("w", 1, "email")
	m := h.pull("email")
	if a := h.begin(m); !a.OK {
		t.Fatalf("%+v", a)
	}
	running := reportOf(m, "").ID
	h.do(submitOf(h, `"new"`))
	got := asked.last()
	if want := []string{running, ids[29], ids[28]}; !slices.Equal(candidateIDs(got), want) {
		t.Fatalf("candidates %v, want %v", candidateIDs(got), want)
	}
	if got[0].State != events.StateRunning || string(got[0].Params) == "" {
		t.Fatalf("%+v", got[0])
	}

	// So do the holders of keys.
	var holders []string
	for _, key := range []string{"x/z", "x/c", "x/d", "x/a"} {
		c := submitOf(h, `0`)
		c.DedupKey = key
		holders = append(holders, h.do(c).Decision.ID.String())
	}
	c := submitOf(h, `0`)
	c.DedupKey = "x/new"
	h.do(c)
	if want := []string{holders[3], holders[2], holders[1]}; !slices.Equal(candidateIDs(asked.last()), want) {
		t.Fatalf("candidates %v, want %v", candidateIDs(asked.last()), want)
	}
}

// together is a hook that answers no question before so many are asked.
func together(n int, asked *questions) judgeFunc {
	all := make(chan struct{})
	var mu sync.Mutex
	return func(ctx context.Context, q DedupQuestion) (events.Verdict, error) {
		mu.Lock()
		if n--; n == 0 {
			close(all)
		}
		mu.Unlock()
		asked.note(q)
		select {
		case <-all:
			return mergeAlike(q)
		case <-ctx.Done():
			return events.Verdict{}, ctx.Err()
		}
	}
}

// Of repeats that are judged at the same moment, whatever way they come, one runs.
func TestJudgedAtTheSameMoment(t *testing.T) {
	const params = `{"check":"in"}`
	for name, submit := range map[string]func(h *harness, done func([]Outcome)) error{
		"two requests": func(h *harness, done func([]Outcome)) error {
			for range 2 {
				if err := h.eng.Do(h.ctx(), []core.Command{submitOf(h, params)}, done); err != nil {
					return err
				}
			}
			return nil
		},
		"one request": func(h *harness, done func([]Outcome)) error {
			return h.eng.Do(h.ctx(), []core.Command{submitOf(h, params), submitOf(h, params)}, done)
		},
		"a request and a publish": func(h *harness, done func([]Outcome)) error {
			if _, err := h.js.Publish(h.ctx(), "work.submit.email", []byte(params)); err != nil {
				return err
			}
			return h.eng.Do(h.ctx(), []core.Command{submitOf(h, params)}, done)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked questions
			h := newHarness(t, func(c *Config) {
				c.Dedup = DedupConfig{Hook: together(2, &asked), Timeout: dedup.MaxTimeout}
			})
			if err := submit(h, func(o []Outcome) {
				if o[0].Err != nil {
					t.Error(o[0].Err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			h.oneRuns()
		})
	}
}

// oneRuns waits for two items, and checks that one is merged into the other.
func (h *harness) oneRuns() {
	h.t.Helper()
	states := map[events.ItemState]int{}
	h.until("both are decided", func() bool {
		got, err := query.Of(h.store).List(wire.List{Type: "email"})
		if err != nil {
			h.t.Fatal(err)
		}
		clear(states)
		for _, it := range got.Items {
			states[it.State]++
		}
		return len(got.Items) == 2
	})
	if states[events.StateQueued] != 1 || states[events.StateMerged] != 1 {
		h.t.Fatalf("%v, want one queued and one merged", states)
	}
}

// So it is with publishes that come in one batch.
func TestPublishesJudgedTogether(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Timeout: dedup.MaxTimeout, Hook: judgeFunc(func(_ context.Context, q DedupQuestion) (events.Verdict, error) {
			if q.Submission.Type == "plug" {
				close(held)
				<-release
			}
			return mergeAlike(q)
		})}
	})
	publish := func(typ, params string) {
		t.Helper()
		if _, err := h.js.Publish(h.ctx(), "work.submit."+typ, []byte(params)); err != nil {
			t.Fatal(err)
		}
	}
	publish("plug", `0`)
	<-held
	publish("email", `1`)
	publish("email", `1`)
	h.until("both are read", func() bool { return h.eng.read.Load() == 3 })
	close(release)
	h.oneRuns()
}

// A candidate that turns out to repeat an item stands for that.
func TestJudgeNamesWhatRepeats(t *testing.T) {
	var asked questions
	var hook judgeFunc = func(context.Context, DedupQuestion) (events.Verdict, error) {
		return events.Verdict{Policy: events.DedupDistinct}, nil
	}
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Timeout: dedup.MaxTimeout, Hook: judgeFunc(func(ctx context.Context, q DedupQuestion) (events.Verdict, error) { return hook(ctx, q) })}
	})
	c := submitOf(h, `1`)
	c.IdempotencyKey = "k"
	first := h.do(c).Decision.ID
	hook = together(2, &asked)
	outcomes := make(chan Outcome, 2)
	for _, key := range []string{"k", ""} {
		c = submitOf(h, `1`)
		c.IdempotencyKey = key
		if err := h.eng.Do(h.ctx(), []core.Command{c}, func(o []Outcome) { outcomes <- o[0] }); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if o := <-outcomes; o.Err != nil || o.Decision.ID != first && o.Item.MergedInto != first {
			t.Fatalf("%+v", o)
		}
	}
}

// spawnOf is the report of a spawn by the run of another report.
func spawnOf(r wire.Report, params ...string) wire.Report {
	r.Event = wire.ReportSpawn
	for _, p := range params {
		r.Children = append(r.Children, wire.Submit{Type: "email", Params: json.RawMessage(p)})
	}
	return r
}

// runningParent starts a run of type email, and returns its report.
func (h *harness) runningParent() wire.Report {
	h.t.Helper()
	h.register("w", 1, "email")
	h.do(submitOf(h, `"parent"`))
	m := h.pull("email")
	if a := h.begin(m); !a.OK {
		h.t.Fatalf("%+v", a)
	}
	return reportOf(m, "")
}

// Spawned children are judged: they see what is live and their siblings, and not
// their parent.
func TestJudgeOfChildren(t *testing.T) {
	var asked questions
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Timeout: dedup.MaxTimeout, Hook: judgeFunc(func(_ context.Context, q DedupQuestion) (events.Verdict, error) {
			asked.note(q)
			return mergeAlike(q)
		})}
	})
	parent := h.runningParent()
	same := h.do(submitOf(h, `"same"`)).Decision.ID
	rep := spawnOf(parent, `"same"`, `"twin"`, `"twin"`, `"parent"`)
	var a wire.Reported
	h.until("the children are judged", func() bool {
		a = h.report(rep)[0]
		return a.Error == nil || a.Error.Code != events.CodeUnavailable
	})
	if !a.OK {
		t.Fatalf("%+v", a)
	}
	if n := asked.len(); n != 6 { // the parent, the same, and four children
		t.Errorf("%d questions, want 6", n)
	}
	id, _ := events.ParseID(parent.ID)
	kids := h.item(id).Relations.Children
	if len(kids) != 4 {
		t.Fatalf("%d children", len(kids))
	}
	if it := h.item(kids[0]); it.MergedInto != same {
		t.Errorf("the first child: %+v", it)
	}
	if it := h.item(kids[2]); it.MergedInto != kids[1] {
		t.Errorf("the third child: %+v", it)
	}
	if it := h.item(kids[3]); it.State != events.StateQueued {
		t.Errorf("the child that is like its parent: %+v", it)
	}
	// The report that comes again asks nobody.
	if a := h.report(rep)[0]; !a.OK || asked.len() != 6 {
		t.Fatalf("%+v after %d questions", a, asked.len())
	}
	// Nothing of it is left undecided.
	h.do(submitOf(h, `"later"`))
	for _, c := range asked.last() {
		if c.State == events.StateCreated {
			t.Errorf("%s is still a candidate as undecided", c.ID)
		}
	}
}

// A slow host holds up no report but the spawn's, whose verdicts are kept until it
// comes again.
func TestSlowJudgeOfChildren(t *testing.T) {
	var asked questions
	answer := make(chan struct{})
	slow := false
	h := newHarness(t, func(c *Config) {
		c.Dedup = DedupConfig{Timeout: dedup.MaxTimeout, Hook: judgeFunc(func(ctx context.Context, q DedupQuestion) (events.Verdict, error) {
			asked.note(q)
			if slow {
				select {
				case <-answer:
				case <-ctx.Done():
				}
			}
			return mergeAlike(q)
		})}
	})
	parent := h.runningParent()
	same := h.do(submitOf(h, `1`)).Decision.ID
	slow = true
	spawn, progress := spawnOf(parent, `1`), parent
	progress.Event, progress.Percent = wire.ReportProgress, 50
	a := h.report(progress, spawn)
	if !a[0].OK || a[1].Error == nil || a[1].Error.Code != events.CodeUnavailable {
		t.Fatalf("%+v", a)
	}
	close(answer)
	var again wire.Reported
	h.until("the children are judged", func() bool {
		again = h.report(spawnOf(parent, `1`))[0]
		return again.Error == nil || again.Error.Code != events.CodeUnavailable
	})
	if !again.OK {
		t.Fatalf("%+v", again)
	}
	if n := asked.len(); n != 3 {
		t.Errorf("%d questions, want 3: one for each submission", n)
	}
	id, _ := events.ParseID(parent.ID)
	if it := h.item(h.item(id).Relations.Children[0]); it.MergedInto != same {
		t.Fatalf("%+v", it)
	}
}
