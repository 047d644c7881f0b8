package streamwright_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// logs has the messages of a type's items logged: one as it begins, one when it is told to go on.
func logs(e *rig, typ, first, second string) (goOn chan struct{}) {
	e.t.Helper()
	goOn = make(chan struct{})
	e.work(typ, func(ctx context.Context, it *workers.RawItem) (any, error) {
		it.Log(workers.LevelInfo, first)
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		it.Log(workers.LevelInfo, second)
		return nil, nil
	})
	return goOn
}

func TestFollowLogsEndsWithItsItem(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	goOn := logs(e, "email", "one", "two")
	close(logs(e, "sms", "of another item", "and once more"))
	if s, err := c.Submit(ctx, streamwright.Item{Type: "sms"}); err != nil {
		t.Fatal(err)
	} else if it, err := c.Wait(ctx, s.ID); err != nil || it.State != events.StateCompleted {
		t.Fatalf("got %+v, %v", it, err)
	}
	s := submit(t, c)
	var got []string
	err := c.FollowLogs(ctx, s.ID, func(r streamwright.LogRecord) error {
		if got = append(got, r.Message); len(got) == 1 {
			close(goOn) // the next is logged before the item ends, so it must be told
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, %v", got, err)
	}
	// Of a finished item, all there is; of one without a log, nothing.
	got = nil
	if err := c.FollowLogs(ctx, s.ID, func(r streamwright.LogRecord) error { got = append(got, r.Message); return nil }); err != nil || len(got) != 2 {
		t.Errorf("got %q, %v", got, err)
	}
	silent, err := c.Submit(ctx, streamwright.Item{Type: "silent"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Cancel(ctx, silent.ID, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.FollowLogs(ctx, silent.ID, nil); err != nil {
		t.Error(err)
	}
}

func TestFollowLogsEndsEarly(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	goOn := logs(e, "email", "one", "two")
	defer close(goOn)
	s := submit(t, c)
	enough := errors.New("enough")
	if err := c.FollowLogs(ctx, s.ID, func(streamwright.LogRecord) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	err := c.FollowLogs(ctx, s.ID, func(streamwright.LogRecord) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantCode(t, c.FollowLogs(t.Context(), "01JD3V6YB2M4C9W8ZK5T7QXRNE", nil), events.CodeNotFound)
	wantCode(t, c.FollowLogs(t.Context(), "x", nil), events.CodeBadID)
}

// tailed collects what a tail tells of items, up to a position.
func tailed(t *testing.T, c *streamwright.Client, o streamwright.TailOptions, last events.Seq) (got []events.Seq) {
	t.Helper()
	done := errors.New("done")
	err := c.Tail(testContext(t), o, func(ev streamwright.Event) error {
		if ev.ID != "" {
			got = append(got, ev.Seq)
		}
		if ev.Seq >= last {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	return got
}

func TestTailSelects(t *testing.T) {
	e := start(t)
	c, ctx := connect(t, e), testContext(t)
	mail := submit(t, c)
	text, err := c.Submit(ctx, streamwright.Item{Type: "sms"})
	if err != nil {
		t.Fatal(err)
	}
	e.work("email", returns(nil, workers.Permanent(errors.New("no such mailbox"))))
	e.work("sms", returns(nil, nil))
	for _, id := range []string{mail.ID, text.ID} {
		if _, err := c.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	// What the log has is told by another request.
	var all []streamwright.Event
	for _, id := range []string{mail.ID, text.ID} {
		h, err := c.History(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h...)
	}
	slices.SortFunc(all, func(a, b streamwright.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	at := func(id string, kind events.Kind) events.Seq {
		i := slices.IndexFunc(all, func(ev streamwright.Event) bool { return ev.ID == id && ev.Kind == kind })
		if i < 0 {
			t.Fatalf("item %s was not %s: %+v", id, kind, all)
		}
		return all[i].Seq
	}
	queued := at(text.ID, events.KindQueued)
	if queued != at(text.ID, events.KindCreated)+1 {
		t.Fatalf("an item was not created and queued at once: %+v", all)
	}
	for name, tc := range map[string]struct {
		o    streamwright.TailOptions
		want func(streamwright.Event) bool
	}{
		"all":                        {streamwright.TailOptions{FromSeq: 1}, func(streamwright.Event) bool { return true }},
		"from the middle of a frame": {streamwright.TailOptions{FromSeq: queued}, func(ev streamwright.Event) bool { return ev.Seq >= queued }},
		"from behind a frame":        {streamwright.TailOptions{FromSeq: queued + 1}, func(ev streamwright.Event) bool { return ev.Seq > queued }},
		"since":                      {streamwright.TailOptions{Since: time.Now().Add(-time.Hour)}, func(streamwright.Event) bool { return true }},
		"type":                       {streamwright.TailOptions{FromSeq: 1, Types: []string{"email"}}, func(ev streamwright.Event) bool { return ev.Type == "email" }},
		"first kind":                 {streamwright.TailOptions{FromSeq: 1, Kinds: []streamwright.Kind{streamwright.KindCreated}}, func(ev streamwright.Event) bool { return ev.Kind == events.KindCreated }},
		"last kind": {streamwright.TailOptions{FromSeq: 1, Kinds: []streamwright.Kind{streamwright.KindDead, streamwright.KindQueued}}, func(ev streamwright.Event) bool {
			return ev.Kind == events.KindDead || ev.Kind == events.KindQueued
		}},
		"item":          {streamwright.TailOptions{FromSeq: 1, ID: strings.ToLower(text.ID)}, func(ev streamwright.Event) bool { return ev.ID == text.ID }},
		"item and kind": {streamwright.TailOptions{FromSeq: 1, ID: text.ID, Kinds: []streamwright.Kind{streamwright.KindCreated}}, func(ev streamwright.Event) bool { return ev.Seq == queued-1 }},
		"type and kind": {streamwright.TailOptions{FromSeq: 1, Types: []string{"sms", "sms"}, Kinds: []streamwright.Kind{streamwright.KindCompleted}}, func(ev streamwright.Event) bool { return ev.Kind == events.KindCompleted }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []events.Seq
			for _, ev := range all {
				if tc.want(ev) && (tc.o.Types == nil || slices.Contains(tc.o.Types, ev.Type)) {
					want = append(want, ev.Seq)
				}
			}
			if got := tailed(t, c, tc.o, want[len(want)-1]); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestTailIsLive(t *testing.T) {
	e := start(t)
	for name, kinds := range map[string][]streamwright.Kind{"all": nil, "filtered": {streamwright.KindQueued}} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, e)
			got := make(chan string, 10)
			ctx, cancel := context.WithCancel(testContext(t))
			ended := make(chan error, 1)
			first := submit(t, c)
			go func() {
				ended <- c.Tail(ctx, streamwright.TailOptions{FromSeq: seqOf(t, first), Kinds: kinds}, func(ev streamwright.Event) error {
					if ev.Kind == events.KindQueued {
						got <- ev.ID
					}
					return nil
				})
			}()
			if id := <-got; id != first.ID {
				t.Errorf("told of %s", id)
			}
			second := submit(t, c)
			if id := <-got; id != second.ID {
				t.Errorf("told of %s", id)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// seqOf is where the events of a submission end.
func seqOf(t *testing.T, s streamwright.Submitted) events.Seq {
	t.Helper()
	seq, err := s.Position.Seq()
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestTailRefusesBadOptions(t *testing.T) {
	e := start(t)
	c := connect(t, e)
	many := make([]string, 300)
	for i := range many {
		many[i] = "t" + string(rune('a'+i%26)) + string(rune('a'+i/26))
	}
	for name, tc := range map[string]struct {
		o    streamwright.TailOptions
		code events.Code
	}{
		"type":      {streamwright.TailOptions{Types: []string{"a.b"}}, events.CodeBadType},
		"kind":      {streamwright.TailOptions{Kinds: []streamwright.Kind{streamwright.Kind(200)}}, events.CodeBadRequest},
		"id":        {streamwright.TailOptions{ID: "1"}, events.CodeBadID},
		"two begin": {streamwright.TailOptions{FromSeq: 1, Since: time.Now()}, events.CodeBadRequest},
		"too many":  {streamwright.TailOptions{Types: many}, events.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, c.Tail(testContext(t), tc.o, nil), tc.code) })
	}
}
