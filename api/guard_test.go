package api

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// refusedSoFar is requests_refused_total of a reason.
func (r *rig) refusedSoFar(reason string) int {
	r.t.Helper()
	families, err := r.metrics.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "streamwright_requests_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// delivered waits until a message has come to a subject of the API, and then
// until the service has looked at it: requests of one endpoint are taken in
// order.
func (r *rig) delivered(sub *nats.Subscription, endpoint string) {
	r.t.Helper()
	if _, err := sub.NextMsgWithContext(r.ctx()); err != nil {
		r.t.Fatalf("the server has sent nothing to %s: %v", sub.Subject, err)
	}
	r.raw(endpoint, `{"no such field":1}`)
}

// typeOf is what the engine knows of a type.
func (r *rig) typeOf(name string) wire.TypeReply {
	r.t.Helper()
	for _, ty := range ask[wire.TypesReply](r, wire.APITypes, wire.StatsRequest{MinPosition: wire.PositionOf(r.eng.Position())}).Types {
		if string(ty.Type) == name {
			return ty
		}
	}
	r.t.Fatalf("there is no type %s", name)
	return wire.TypeReply{}
}

// A worker has the server send it an item, whose params are the body of an
// operator's request, on the subject of that request.
func TestPulledItemsAreNoRequests(t *testing.T) {
	r := newRig(t, nil)
	reg := ask[wire.Registered](r, wire.APIRegister, wire.Register{Pull: true, Worker: "w1", Session: "s1", Types: []string{"email"}, Slots: 5})
	for i, tc := range []struct{ endpoint, params string }{
		{wire.APIPause, `{"type":"email"}`},
		{wire.APIConfigure, `{"type":"email","settings":{"capacity":1}}`},
		{wire.APIPurge, `{"id":"x"}`},
	} {
		r.submit(wire.Submit{Type: "email", Params: json.RawMessage(tc.params)})
		sub, err := r.nc.SubscribeSync(wire.Default.API(tc.endpoint))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+reg.Stream+"."+reg.Consumers["email"][0], sub.Subject, []byte(`{"batch":1,"expires":10000000000}`)); err != nil {
			t.Fatal(err)
		}
		r.delivered(sub, tc.endpoint)
		if n := r.refusedSoFar(refusedSubject); n != i+1 {
			t.Errorf("%s: %d messages were refused, want %d", tc.endpoint, n, i+1)
		}
	}
	if ty := r.typeOf("email"); ty.Paused != nil || ty.Settings.Capacity == 1 {
		t.Errorf("the type is paused: %v, its capacity %d", ty.Paused != nil, ty.Settings.Capacity)
	}
}

// A reader has the server send its empty "no message found" to requests that
// need no body, and stored messages to those that do.
func TestAnswersOfTheServerAreNoRequests(t *testing.T) {
	r := newRig(t, nil)
	r.submit(wire.Submit{Type: "email"})
	before, err := r.eng.Retention(r.ctx())
	if err != nil {
		t.Fatal(err)
	}
	log := wire.Default.LogStream()
	for i := range 2 {
		if _, err := r.nc.Request(wire.Default.Log("email", events.ID{byte(i)}), []byte(`{"type":"email"}`), patience); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for _, tc := range []struct{ endpoint, subject, body string }{
		{wire.APICut, "$JS.API.DIRECT.GET." + wire.Default.EventStream(0), `{"seq":99999999}`},
		{wire.APIRebuild, "$JS.API.DIRECT.GET." + wire.Default.EventStream(0), `{"seq":99999999}`},
		{wire.APIPause, "$JS.API.DIRECT.GET." + log, `{"seq":2}`},
		{wire.APIPause, "$JS.API.DIRECT.GET." + log, fmt.Sprintf(`{"seq":1,"next_by_subj":%q}`, wire.Default.Log("email", events.ID{1}))},
	} {
		sub, err := r.nc.SubscribeSync(wire.Default.API(tc.endpoint))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.nc.PublishRequest(tc.subject, sub.Subject, []byte(tc.body)); err != nil {
			t.Fatal(err)
		}
		r.delivered(sub, tc.endpoint)
		refused++
		if n := r.refusedSoFar(refusedHeader) + r.refusedSoFar(refusedSubject); n != refused {
			t.Errorf("%s: %d messages were refused, want %d", tc.endpoint, n, refused)
		}
	}
	if r.typeOf("email").Paused != nil {
		t.Error("the type is paused")
	}
	if after, err := r.eng.Retention(r.ctx()); err != nil || after.Phase != "" || after.CutAt != before.CutAt || after.First != before.First {
		t.Errorf("the log is being cut: %+v, before %+v, %v", after, before, err)
	}
}

// What a client may send by hand and no request has.
func TestWhatIsNoRequestIsNotExecuted(t *testing.T) {
	r := newRig(t, nil)
	r.submit(wire.Submit{Type: "email"})
	endpoint := wire.Default.API(wire.APIPause)
	inbox := r.nc.NewInbox()
	replies, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	own := r.svc.Conn.NewRespInbox()
	for name, tc := range map[string]struct {
		reply, header, value, reason string
		answered                     bool
	}{
		"no reply subject":           {reason: refusedNoReply},
		"a reply to the server":      {reply: "$JS.API.STREAM.INFO.X", reason: refusedReply},
		"a reply to the engine":      {reply: wire.Default.API(wire.APIResume), reason: refusedReply},
		"a reply to its log":         {reply: "work.event.0.email.completed", reason: refusedReply},
		"a reply to its own request": {reply: own, reason: refusedReply},
		"a status":                   {reply: inbox, header: "Status", value: "100", reason: refusedHeader, answered: true},
		"a sequence":                 {reply: inbox, header: "Nats-Sequence", value: "1", reason: refusedHeader, answered: true},
		"a trace":                    {reply: inbox, header: "nats-trace-dest", value: "x", reason: refusedHeader, answered: true},
		"a status, and no reply":     {header: "Status", value: "404", reason: refusedHeader},
	} {
		before := r.refusedSoFar(tc.reason)
		msg := &nats.Msg{Subject: endpoint, Reply: tc.reply, Data: []byte(`{"type":"email"}`), Header: nats.Header{}}
		if tc.header != "" {
			msg.Header[tc.header] = []string{tc.value}
		}
		if err := r.nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
		if tc.answered {
			answer, err := replies.NextMsgWithContext(r.ctx())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, err = read[wire.OK](t, answer)
			wantCode(t, err, events.CodeBadRequest)
		}
		r.raw(wire.APIPause, `{"no such field":1}`) // behind it
		if n := r.refusedSoFar(tc.reason) - before; n != 1 {
			t.Errorf("%s: %d refused for %s", name, n, tc.reason)
		}
	}
	if r.typeOf("email").Paused != nil {
		t.Error("the type is paused")
	}
	// What clients do send is executed, also where an import has brought it.
	m := nats.NewMsg(endpoint)
	m.Data = []byte(`{"type":"email"}`)
	m.Header.Set(wire.HeaderRequestInfo, `{"acc":"WORK_ops"}`)
	m.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	answer, err := r.nc.RequestMsgWithContext(r.ctx(), m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read[wire.TypeReply](t, answer); err != nil {
		t.Error(err)
	}
	if r.typeOf("email").Paused == nil {
		t.Error("the request was not executed")
	}
}

// The log says each reason once in a while, however many there are.
func TestRefusalsAreLoggedNowAndThen(t *testing.T) {
	g := &guard{logged: map[string]time.Time{}, silent: map[string]int{}}
	now := time.Unix(1_900_000_000, 0)
	lines := 0
	for range 1000 {
		for _, reason := range refusals {
			if _, log := g.due(reason, now); log {
				lines++
			}
		}
	}
	if lines != len(refusals) {
		t.Errorf("%d lines for %d reasons", lines, len(refusals))
	}
	if silent, log := g.due(refusedHeader, now.Add(refusalLogEvery)); !log || silent != 999 {
		t.Errorf("afterwards: logged %v, %d silent", log, silent)
	}
}
