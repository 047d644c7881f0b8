package streamwright_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/fakeengine"
	"github.com/streamwright/streamwright/wire"
)

func TestFollowLogsEndsWithItsItem(t *testing.T) {
	e := fakeengine.Start(t)
	c, ctx := connect(t, e), testContext(t)
	s, err := c.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	e.Log("email", s.ID, "one")
	e.Log("email", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "of another item")
	var got []string
	err = c.FollowLogs(ctx, s.ID, func(r streamwright.LogRecord) error {
		if got = append(got, r.Message); len(got) == 1 {
			// Logged before the item ends, so it must be told.
			e.Log("email", s.ID, "two")
			e.Set(s.ID, func(it *wire.Item) { it.State = events.StateCompleted })
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
	silent, _ := c.Submit(ctx, streamwright.Item{Type: "email"})
	e.Set(silent.ID, func(it *wire.Item) { it.State = events.StateDead })
	if err := c.FollowLogs(ctx, silent.ID, nil); err != nil {
		t.Error(err)
	}
}

func TestFollowLogsEndsEarly(t *testing.T) {
	e := fakeengine.Start(t)
	c, ctx := connect(t, e), testContext(t)
	s, _ := c.Submit(ctx, streamwright.Item{Type: "email"})
	e.Log("email", s.ID, "one")
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

var (
	idA, _ = events.ParseID("01JD3V6YB2M4C9W8ZK5T7QXRNA")
	idB, _ = events.ParseID("01JD3V6YB2M4C9W8ZK5T7QXRNB")
)

// decision is events of one item as one decision.
func decision(id events.ID, typ events.Type, kinds ...events.Kind) []events.Event {
	bodies := map[events.Kind]events.Body{
		events.KindCreated: &events.Created{Params: []byte("1")}, events.KindQueued: &events.Queued{Reason: "submitted"},
		events.KindFailed: &events.Failed{Error: "e"}, events.KindDead: &events.Dead{Reason: "exhausted"},
		events.KindCompleted: &events.Completed{},
	}
	out := make([]events.Event, len(kinds))
	for i, k := range kinds {
		out[i] = events.Event{Kind: k, ID: id, Type: typ, At: fakeengine.Now, Body: bodies[k]}
	}
	return out
}

// tailed collects what a tail tells, up to a position.
func tailed(t *testing.T, c *streamwright.Client, o streamwright.TailOptions, last events.Seq) (got []events.Seq) {
	t.Helper()
	done := errors.New("done")
	err := c.Tail(testContext(t), o, func(ev streamwright.Event) error {
		if got = append(got, ev.Seq); ev.Seq >= last {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatal(err)
	}
	return got
}

func TestTailTellsOnlyWhatWasDecided(t *testing.T) {
	e := fakeengine.Start(t)
	c := connect(t, e)
	e.Append(decision(idA, "email", events.KindCreated, events.KindQueued)...) // frame 1
	for _, m := range []*nats.Msg{                                             // 2 and 3 are none
		{Data: []byte("no engine wrote this")},
		{Header: nats.Header{"Nats-Msg-Id": {"x"}}, Data: append(mustJSON(t, decision(idA, "email", events.KindCompleted)[0]), '\n')},
	} {
		m.Subject = wire.Default.Frame(0)
		if _, err := e.JS.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	e.Append(decision(idB, "sms", events.KindCreated, events.KindQueued)...)
	e.Append(decision(idA, "email", events.KindFailed, events.KindDead)...)
	e.Append(decision(idB, "sms", events.KindCompleted)...)
	at := events.SeqOf
	all := []events.Seq{at(1, 0), at(1, 1), at(4, 0), at(4, 1), at(5, 0), at(5, 1), at(6, 0)}
	for name, tc := range map[string]struct {
		o    streamwright.TailOptions
		want []events.Seq
	}{
		"all":                        {streamwright.TailOptions{FromSeq: 1}, all},
		"from the middle of a frame": {streamwright.TailOptions{FromSeq: at(4, 1)}, all[3:]},
		"from behind a frame":        {streamwright.TailOptions{FromSeq: at(4, 2)}, all[4:]},
		"since":                      {streamwright.TailOptions{Since: time.Now().Add(-time.Hour)}, all},
		"type":                       {streamwright.TailOptions{FromSeq: 1, Types: []string{"email"}}, []events.Seq{at(1, 0), at(1, 1), at(5, 0), at(5, 1)}},
		"first kind":                 {streamwright.TailOptions{FromSeq: 1, Kinds: []string{"created"}}, []events.Seq{at(1, 0), at(4, 0)}},
		"last kind":                  {streamwright.TailOptions{FromSeq: 1, Kinds: []string{"dead", "queued"}}, []events.Seq{at(1, 1), at(4, 1), at(5, 1)}},
		"item":                       {streamwright.TailOptions{FromSeq: 1, ID: "01jd3v6yb2m4c9w8zk5t7qxrnb"}, []events.Seq{at(4, 0), at(4, 1), at(6, 0)}},
		"item and kind":              {streamwright.TailOptions{FromSeq: 1, ID: idB.String(), Kinds: []string{"created"}}, []events.Seq{at(4, 0)}},
		"type and kind":              {streamwright.TailOptions{FromSeq: 1, Types: []string{"sms", "sms"}, Kinds: []string{"completed"}}, []events.Seq{at(6, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tailed(t, c, tc.o, tc.want[len(tc.want)-1]); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTailIsLive(t *testing.T) {
	for name, kinds := range map[string][]string{"all": nil, "filtered": {"queued"}} {
		t.Run(name, func(t *testing.T) {
			e := fakeengine.Start(t)
			c := connect(t, e)
			e.Append(decision(idA, "email", events.KindCreated, events.KindQueued)...)
			got := make(chan events.Seq, 10)
			ctx, cancel := context.WithCancel(testContext(t))
			ended := make(chan error, 1)
			go func() {
				ended <- c.Tail(ctx, streamwright.TailOptions{FromSeq: events.SeqOf(1, 1), Kinds: kinds}, func(ev streamwright.Event) error { got <- ev.Seq; return nil })
			}()
			if s := <-got; s != events.SeqOf(1, 1) {
				t.Errorf("told %d", s)
			}
			e.Append(decision(idB, "email", events.KindQueued)...)
			if s := <-got; s != events.SeqOf(2, 0) {
				t.Errorf("told %d", s)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTailRefusesBadOptions(t *testing.T) {
	e := fakeengine.Start(t)
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
		"kind":      {streamwright.TailOptions{Kinds: []string{"done"}}, events.CodeBadRequest},
		"id":        {streamwright.TailOptions{ID: "1"}, events.CodeBadID},
		"two begin": {streamwright.TailOptions{FromSeq: 1, Since: time.Now()}, events.CodeBadRequest},
		"too many":  {streamwright.TailOptions{Types: many}, events.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, c.Tail(testContext(t), tc.o, nil), tc.code) })
	}
}

func mustJSON(t *testing.T, ev events.Event) []byte {
	data, err := ev.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
