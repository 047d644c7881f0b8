package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// readEvents asks for one page.
func (r *rig) readEvents(req wire.ReadEvents) wire.EventsReply {
	r.t.Helper()
	return ask[wire.EventsReply](r, wire.APIEvents, req)
}

// put submits an item of a type and returns its id.
func (r *rig) put(typ string) string {
	r.t.Helper()
	return r.submit(wire.Submit{Type: typ, Params: json.RawMessage(`1`)}).ID
}

// replay reads by pages from a position to the end.
func (r *rig) replay(req wire.ReadEvents) (all []wire.HistoryEvent, pages int) {
	r.t.Helper()
	for {
		page := r.readEvents(req)
		all = append(all, page.Events...)
		pages++
		if len(page.Events) == 0 && !page.More {
			return all, pages
		}
		req.FromSeq, req.Since = page.NextSeq, time.Time{}
	}
}

func seqs(list []wire.HistoryEvent) (out []events.Seq) {
	for _, ev := range list {
		out = append(out, ev.Seq)
	}
	return out
}

// What a reader gets by pages is the log, however small the pages are, and
// nobody makes a consumer for it.
func TestEventsByPages(t *testing.T) {
	r := newRig(t, nil)
	for i := range 40 {
		r.put(fmt.Sprintf("type%d", i%2))
	}
	last := r.eng.Position()
	all, _ := r.replay(wire.ReadEvents{FromSeq: 1})
	if got := all[len(all)-1].Seq; got != last {
		t.Fatalf("it ends with %d, the log with %d", got, last)
	}
	if err := r.store.Await(r.ctx(), last); err != nil {
		t.Fatal(err)
	}
	if m, err := r.store.Meta(); err != nil || m.Applied != last || m.Events != uint64(len(all)) {
		t.Fatalf("it has %d events, the log %d up to %d, %v", len(all), m.Events, m.Applied, err)
	}
	for i, ev := range all {
		if i > 0 && ev.Seq <= all[i-1].Seq {
			t.Fatalf("event %d has the position %d", i, ev.Seq)
		}
	}
	for name, req := range map[string]wire.ReadEvents{
		"one at a time": {FromSeq: 1, Limit: 1}, "few bytes": {FromSeq: 1, MaxBytes: 1}, "since": {Since: time.Now().Add(-time.Hour)},
	} {
		if got, _ := r.replay(req); !slices.Equal(seqs(got), seqs(all)) {
			t.Errorf("%s: got %v", name, seqs(got))
		}
	}
	for name, c := range map[string]struct {
		req  wire.ReadEvents
		want func(wire.HistoryEvent) bool
	}{
		"type":           {wire.ReadEvents{FromSeq: 1, Types: []string{"type1"}}, func(ev wire.HistoryEvent) bool { return ev.Type == "type1" }},
		"kind":           {wire.ReadEvents{FromSeq: 1, Kinds: []string{"created"}}, func(ev wire.HistoryEvent) bool { return ev.Kind == events.KindCreated }},
		"type and kinds": {wire.ReadEvents{FromSeq: 1, Types: []string{"type0"}, Kinds: []string{"created", "queued"}}, func(ev wire.HistoryEvent) bool { return ev.Type == "type0" && ev.ID != "" }},
		"id":             {wire.ReadEvents{FromSeq: 1, ID: all[len(all)-1].ID}, func(ev wire.HistoryEvent) bool { return ev.ID == all[len(all)-1].ID }},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(ev wire.HistoryEvent) bool { return !c.want(ev) })
		if got, _ := r.replay(c.req); !slices.Equal(seqs(got), seqs(want)) {
			t.Errorf("%s: got %v, want %v", name, seqs(got), seqs(want))
		}
	}
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(r.ctx(), "WORK_EVENTS_0")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Consumers; n != 0 {
		t.Errorf("the stream has %d consumers", n)
	}
}

// A filtered reading of a long log agrees with an unfiltered one, also across
// the point from which on everything is read.
func TestEventsOfALongLog(t *testing.T) {
	r := newRig(t, nil)
	batch := make([]wire.Submit, 500)
	for range 6 {
		for i := range batch {
			batch[i] = wire.Submit{Type: fmt.Sprintf("type%d", i%5), Params: json.RawMessage(`1`)}
		}
		ask[[]wire.Submitted](r, wire.APISubmit, batch)
	}
	all, _ := r.replay(wire.ReadEvents{FromSeq: 1})
	for _, req := range []wire.ReadEvents{
		{FromSeq: 1, Types: []string{"type3"}}, {FromSeq: 7, Kinds: []string{"queued"}, Limit: 300}, {FromSeq: 1, Types: []string{"none"}}, {FromSeq: 1, Kinds: []string{"created"}, MaxBytes: 10_000},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(ev wire.HistoryEvent) bool {
			return ev.Seq < req.FromSeq || len(req.Types) > 0 && !slices.Contains(req.Types, ev.Type) || len(req.Kinds) > 0 && !slices.Contains(req.Kinds, ev.Kind.String())
		})
		got, pages := r.replay(req)
		if !slices.Equal(seqs(got), seqs(want)) {
			t.Errorf("%+v: got %d events in %d pages, want %d", req, len(got), pages, len(want))
		}
	}
}

// logEnd is the position behind the log's last frame.
func logEnd(r *rig) events.Seq { return events.SeqOf(r.eng.Position().Frame()+1, 0) }

// A request that waits is answered by the event that comes, whatever else comes
// before; without one it is answered when its time is up, and has moved on.
func TestEventsAreWaitedFor(t *testing.T) {
	r := newRig(t, nil)
	start := r.readEvents(wire.ReadEvents{})
	if len(start.Events) != 0 || start.NextSeq != logEnd(r) {
		t.Fatalf("the end is %+v", start)
	}
	got := make(chan wire.EventsReply, 1)
	go func() {
		got <- r.readEvents(wire.ReadEvents{FromSeq: start.NextSeq, Types: []string{"wanted"}, Kinds: []string{"queued"}, Wait: events.Millis(20_000)})
	}()
	r.put("other")
	id := r.put("wanted")
	if page := <-got; len(page.Events) != 1 || page.Events[0].ID != id {
		t.Errorf("got %+v", page)
	}
	r.put("other")
	page := r.readEvents(wire.ReadEvents{FromSeq: start.NextSeq, Types: []string{"none"}, Wait: events.Millis(1)})
	if len(page.Events) != 0 || page.NextSeq != logEnd(r) {
		t.Errorf("got %+v, the log ends with %d", page, r.eng.Position())
	}
}

// Whoever waits for events does not take the room of queries, nor of workers.
func TestWaitingForEventsShutsNobodyOut(t *testing.T) {
	r := newRig(t, nil)
	var wg sync.WaitGroup
	refused := make(chan struct{}, MaxTails)
	body, _ := json.Marshal(wire.ReadEvents{FromSeq: r.eng.Position() + 1, Wait: events.Millis(60_000), Types: []string{"none"}})
	inbox := nats.NewInbox()
	sub, err := r.nc.Subscribe(inbox, func(*nats.Msg) { refused <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range MaxTails + 1 {
		if err := r.nc.PublishRequest("work.api.events", inbox, body); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-refused: // one too many
	case <-time.After(patience):
		t.Fatal("more tails are taken than the bound")
	}
	for range 20 {
		wg.Go(func() {
			r.put("email")
			ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{})
		})
	}
	wg.Wait()
}

func TestEventsRefusesBadRequests(t *testing.T) {
	r := newRig(t, nil)
	many := make([]string, wire.MaxEventTypes+1)
	for name, c := range map[string]struct {
		req  wire.ReadEvents
		code events.Code
	}{
		"two begin": {wire.ReadEvents{FromSeq: 1, Since: time.Now()}, events.CodeBadRequest},
		"limit":     {wire.ReadEvents{Limit: 1001}, events.CodeBadRequest},
		"bytes":     {wire.ReadEvents{MaxBytes: -1}, events.CodeBadRequest},
		"wait":      {wire.ReadEvents{Wait: events.Millis(60_001)}, events.CodeBadTime},
		"type":      {wire.ReadEvents{Types: []string{"a.b"}}, events.CodeBadType},
		"kind":      {wire.ReadEvents{Kinds: []string{"done"}}, events.CodeBadRequest},
		"id":        {wire.ReadEvents{ID: "x"}, events.CodeBadID},
		"many":      {wire.ReadEvents{Types: many}, events.CodeTooLarge},
		"beyond":    {wire.ReadEvents{FromSeq: 1 << 40}, events.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := try[wire.EventsReply](r, wire.APIEvents, c.req); events.CodeOf(err) != c.code {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A position that retention has cut is told as a gap; the beginning is not.
func TestEventsTellWhatWasCut(t *testing.T) {
	r := newRig(t, nil)
	for range 5 {
		r.put("email")
	}
	if err := r.log.Purge(r.ctx(), 6); err != nil {
		t.Fatal(err)
	}
	from, first := events.SeqOf(3, 0), events.SeqOf(6, 0)
	page := r.readEvents(wire.ReadEvents{FromSeq: from})
	if page.Gap == nil || page.Gap.From != from || page.Gap.To != first-1 || page.Events[0].Seq != first {
		t.Errorf("got %+v", page)
	}
	if page := r.readEvents(wire.ReadEvents{FromSeq: 1, Kinds: []string{"queued"}}); page.Gap != nil || page.Events[0].Seq < first {
		t.Errorf("got %+v", page)
	}
}

// forgetful is a projection that has pruned some items.
type forgetful struct {
	Queries
	gone *sync.Map
}

func (f forgetful) Item(id events.ID) (*events.Item, error) {
	if _, gone := f.gone.Load(id); gone {
		return nil, nil
	}
	return f.Queries.Item(id)
}

// A reader chooses the events of a tenant's items, and of those with a label: all of them,
// wherever it begins, whatever has become of the item, and however small its pages are.
func TestEventsOfTenantsAndLabels(t *testing.T) {
	var gone sync.Map
	r := newRig(t, func(c *Config) { c.Queries = forgetful{c.Queries, &gone} })
	who := map[string]string{}
	for i := range 12 {
		s := wire.Submit{Type: "email", Params: json.RawMessage(`1`), Tenant: []string{"acme", "zeta", ""}[i%3], Labels: map[string]string{"region": []string{"eu", "us"}[i%2], "n": fmt.Sprint(i)}}
		if i%4 == 3 {
			s.Labels = nil
		}
		if i == 5 { // made elsewhere, by a clock that is years ahead
			s.ID = "7ZZZZZZZZZZZZZZZZZZZZZZZZ5"
		}
		id := r.submit(s).ID
		who[id] = s.Tenant + " " + s.Labels["region"]
	}
	for id := range who {
		ask[wire.Cancelled](r, wire.APICancel, wire.Cancel{ID: id})
	}
	all, _ := r.replay(wire.ReadEvents{FromSeq: 1})
	for name, forget := range map[string]func(){
		"kept": func() {},
		"pruned": func() {
			for id := range who {
				known, err := events.ParseID(id)
				if err != nil {
					t.Fatal(err)
				}
				gone.Store(known, true)
			}
		},
	} {
		forget()
		for _, c := range []struct {
			req  wire.ReadEvents
			want func(string) bool
		}{
			{wire.ReadEvents{Tenant: "acme"}, func(w string) bool { return strings.HasPrefix(w, "acme ") }},
			{wire.ReadEvents{Label: "region=eu"}, func(w string) bool { return strings.HasSuffix(w, " eu") }},
			{wire.ReadEvents{Tenant: "zeta", Label: "region=us"}, func(w string) bool { return w == "zeta us" }},
			{wire.ReadEvents{Tenant: "zeta", Kinds: []string{"cancelled"}}, func(w string) bool { return strings.HasPrefix(w, "zeta ") }},
			{wire.ReadEvents{Label: "region="}, func(string) bool { return false }},
			{wire.ReadEvents{Tenant: "none"}, func(string) bool { return false }},
		} {
			for _, from := range []events.Seq{1, all[len(all)/2].Seq, all[len(all)-1].Seq} {
				c.req.FromSeq = from
				var want []events.Seq
				for _, ev := range all {
					if w, of := who[ev.ID]; of && ev.Seq >= from && c.want(w) && (len(c.req.Kinds) == 0 || ev.Kind == events.KindCancelled) {
						want = append(want, ev.Seq)
					}
				}
				for _, limit := range []int{0, 1} {
					c.req.Limit = limit
					r.svc.tails.items.forget()
					if got, _ := r.replay(c.req); !slices.Equal(seqs(got), want) {
						t.Errorf("%s, %+v: got %d, want %d", name, c.req, seqs(got), want)
					}
				}
			}
		}
	}
	_, err := try[wire.EventsReply](r, wire.APIEvents, wire.ReadEvents{Label: "region"})
	wantCode(t, err, events.CodeBadRequest)
}

// forget empties a book.
func (b *itemBook) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = nil
}
