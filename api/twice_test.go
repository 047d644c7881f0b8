package api

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// A change that is asked for twice at once happens once, and the second caller is
// told so.
func TestTwiceAtOnce(t *testing.T) {
	r := newRig(t, nil)
	const times = 40
	died := func(typ string) []any {
		ids := make([]any, times)
		for i := range ids {
			ids[i] = r.submit(wire.Submit{Type: typ, Params: json.RawMessage(`{"n":1}`)}).ID
			r.cancel(ids[i].(string))
		}
		return ids
	}
	for name, c := range map[string]struct {
		endpoint string
		request  string // with %v for what it is about
		about    func() []any
		refused  events.Code
	}{
		"purge a rejected submission": {wire.APIPurgeRejected, `{"seq":%v}`, r.rejections(times), events.CodeNotFound},
		"purge":                       {wire.APIPurge, `{"id":%q}`, func() []any { return died("purged") }, events.CodeNotFound},
		"replay":                      {wire.APIReplay, `{"id":%q}`, func() []any { return died("replayed") }, events.CodeWrongState},
		"replay with a patch":         {wire.APIReplay, `{"id":%q,"patch":{"n":2}}`, func() []any { return died("patched") }, events.CodeWrongState},
		"remove a type": {wire.APITypeRemove, `{"type":%q}`, func() (types []any) {
			for i := range times {
				types = append(types, fmt.Sprintf("removed-%d", i))
				ask[wire.TypeReply](r, wire.APIConfigure, json.RawMessage(fmt.Sprintf(`{"type":%q,"settings":{"capacity":7}}`, types[i])))
			}
			return types
		}, events.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			for _, about := range c.about() {
				first, second := r.atOnce(c.endpoint, fmt.Sprintf(c.request, about))
				if first != nil {
					first, second = second, first
				}
				if first != nil {
					t.Errorf("%v: both are refused: %v, %v", about, first, second)
				}
				wantCode(t, second, c.refused)
			}
		})
	}
}

// Of two bulk requests at once, each item is changed by one.
func TestBulksAtOnce(t *testing.T) {
	r := newRig(t, nil)
	for _, action := range []string{wire.BulkReplay, wire.BulkPurge} {
		for i := range 40 {
			typ := fmt.Sprintf("%s-%d", action, i)
			for range 5 {
				r.cancel(r.submit(wire.Submit{Type: typ}).ID)
			}
			body := fmt.Sprintf(`{"action":%q,"select":{"type":%q,"state":"cancelled","min_position":%q}}`, action, typ, wire.PositionOf(r.eng.Position()))
			changed, busy := 0, true
			for busy && changed == 0 {
				busy = false
				for _, msg := range r.twice(wire.APIBulk, body) {
					reply, err := read[wire.BulkReply](t, msg)
					if events.CodeOf(err) == events.CodeUnavailable { // those before may still be ending: so many are taken at once
						busy = true
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					changed += reply.Changed
				}
			}
			if changed != 5 {
				t.Errorf("%s: %d of 5 changed", typ, changed)
			}
		}
	}
}

// The reply to a repeat by idempotency key says whether the content differs, and the
// reply to a merge what became of its priority.
func TestRepliesSayWhatDiffers(t *testing.T) {
	r := newRig(t, nil)
	first := r.submit(wire.Submit{Type: "email", Params: json.RawMessage(`{"n":1}`), IdempotencyKey: "k"})
	if again := r.submit(wire.Submit{Type: "email", Params: json.RawMessage(`{"n":1}`), IdempotencyKey: "k"}); again.ID != first.ID || !again.Repeat || again.ContentDiffers {
		t.Errorf("the same: %+v", again)
	}
	if other := r.submit(wire.Submit{Type: "email", Params: json.RawMessage(`{"n":2}`), IdempotencyKey: "k"}); other.ID != first.ID || !other.Repeat || !other.ContentDiffers {
		t.Errorf("other params: %+v", other)
	}
	if again := r.submit(wire.Submit{Type: "email", ID: first.ID, Params: json.RawMessage(`{"n":1}`), IdempotencyKey: "k"}); !again.Repeat || again.ContentDiffers {
		t.Errorf("under the engine's id: %+v", again)
	}
	low, high := wire.Priority(2), wire.Priority(8)
	holder := r.submit(wire.Submit{Type: "email", DedupKey: "d", Priority: &low})
	if urgent := r.submit(wire.Submit{Type: "email", DedupKey: "d", Priority: &high}); urgent.MergedInto != holder.ID || !urgent.Raised {
		t.Errorf("merged: %+v", urgent)
	}
}

func (r *rig) cancel(id string) { ask[wire.Cancelled](r, wire.APICancel, wire.Cancel{ID: id}) }

// twice sends a request twice, with nothing between, and returns the replies.
func (r *rig) twice(endpoint, body string) (replies [2]*nats.Msg) {
	r.t.Helper()
	var subs [2]*nats.Subscription
	for i := range subs {
		inbox := r.nc.NewInbox()
		var err error
		if subs[i], err = r.nc.SubscribeSync(inbox); err != nil {
			r.t.Fatal(err)
		}
		if err := r.nc.PublishRequest(wire.Default.API(endpoint), inbox, []byte(body)); err != nil {
			r.t.Fatal(err)
		}
	}
	for i, sub := range subs {
		var err error
		if replies[i], err = sub.NextMsgWithContext(r.ctx()); err != nil {
			r.t.Fatal(err)
		}
		if err := sub.Unsubscribe(); err != nil {
			r.t.Fatal(err)
		}
	}
	return replies
}

func (r *rig) atOnce(endpoint, body string) (first, second error) {
	replies := r.twice(endpoint, body)
	_, first = read[json.RawMessage](r.t, replies[0])
	_, second = read[json.RawMessage](r.t, replies[1])
	return first, second
}

// rejections publishes what can't be read, and returns the positions of the
// rejections.
func (r *rig) rejections(n int) func() []any {
	return func() (seqs []any) {
		for range n {
			if _, err := r.nc.RequestWithContext(r.ctx(), wire.Default.Submit("email"), []byte("{")); err != nil {
				r.t.Fatal(err)
			}
		}
		for len(seqs) < n {
			seqs = seqs[:0]
			for _, rej := range ask[wire.RejectedListed](r, wire.APIRejected, wire.ListRejected{Limit: n, MinPosition: wire.PositionOf(r.eng.Position())}).Rejected {
				seqs = append(seqs, rej.Seq)
			}
		}
		return seqs
	}
}

// A submission that was rejected a moment ago, which the projection may not show yet, is
// purged and replayed; one that was purged a moment ago is not replayed.
func TestRejectedJustNow(t *testing.T) {
	r := newRig(t, nil)
	reject := func() events.Seq {
		before := r.eng.Position()
		if _, err := r.nc.RequestWithContext(r.ctx(), wire.Default.Submit("email"), []byte("{")); err != nil {
			t.Fatal(err)
		}
		for r.eng.Position() == before {
			runtime.Gosched()
		}
		return r.eng.Position()
	}
	ask[wire.TypeReply](r, wire.APIConfigure, json.RawMessage(`{"type":"email","settings":{"capacity":7}}`))
	for range 20 {
		ask[wire.PurgedRejected](r, wire.APIPurgeRejected, wire.PurgeRejected{Seq: reject()})
		seq := reject()
		ask[wire.Submitted](r, wire.APIReplayRejected, wire.ReplayRejected{Seq: seq, Params: json.RawMessage(`{}`)})
		ask[wire.PurgedRejected](r, wire.APIPurgeRejected, wire.PurgeRejected{Seq: seq})
		_, err := try[wire.Submitted](r, wire.APIReplayRejected, wire.ReplayRejected{Seq: seq, Params: json.RawMessage(`{}`)})
		wantCode(t, err, events.CodeNotFound)
	}
}
