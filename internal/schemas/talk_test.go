package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const patience = 2 * time.Minute

// talk asks an engine, and holds every message against its schema.
type talk struct {
	t        *testing.T
	nc       *nats.Conn
	endpoint map[string]struct{ request, reply *jsonschema.Schema }
	asked    map[string]bool
	failed   *jsonschema.Schema // of an error reply
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Options{Memory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	k := &talk{t: t, nc: nc, endpoint: map[string]struct{ request, reply *jsonschema.Schema }{}, asked: map[string]bool{}}
	c := compiler(t)
	index := load(t, "endpoints.json")
	if err := c.AddResource("endpoints.json", index); err != nil {
		t.Fatal(err)
	}
	compile := func(ref string) *jsonschema.Schema {
		s, err := c.Compile(ref)
		if err != nil {
			t.Fatalf("%s: %v", ref, err)
		}
		return s
	}
	for _, e := range Endpoints() {
		k.endpoint[e.Name] = struct{ request, reply *jsonschema.Schema }{
			compile("endpoints.json#/endpoints/" + e.Name + "/request"), compile("endpoints.json#/endpoints/" + e.Name + "/reply"),
		}
	}
	k.failed = compile("types.json#/$defs/ErrorReply")
	return k
}

// ask sends a request that must be granted and returns its reply, decoded into
// a T.
func ask[T any](k *talk, endpoint, body string) T {
	k.t.Helper()
	data := k.exchange(endpoint, body)
	if k.failed.Validate(k.value(data)) == nil {
		k.t.Fatalf("%s %s was refused: %s", endpoint, body, data)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		k.t.Fatal(err)
	}
	return v
}

func (k *talk) exchange(endpoint, body string) []byte {
	k.t.Helper()
	k.asked[endpoint] = true
	if err := check(k.endpoint[endpoint].request, body); err != nil {
		k.t.Errorf("the request %s %s: %v", endpoint, body, err)
	}
	m, err := k.nc.Request(wire.Default.API(endpoint), []byte(body), patience)
	if err != nil {
		k.t.Fatalf("%s: %v", endpoint, err)
	}
	if err := k.endpoint[endpoint].reply.Validate(k.value(m.Data)); err != nil {
		k.t.Errorf("the reply to %s %s: %v\n%s", endpoint, body, err, m.Data)
	}
	return m.Data
}

func (k *talk) value(data []byte) any {
	k.t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		k.t.Fatalf("%v\n%s", err, data)
	}
	return v
}

// refused sends a request that must be refused with a code.
func (k *talk) refused(endpoint, body, code string) {
	k.t.Helper()
	data := k.exchange(endpoint, body)
	var e wire.ErrorReply
	if json.Unmarshal(data, &e) != nil || e.Error == nil || string(e.Error.Code) != code {
		k.t.Errorf("%s %s was not refused with %s: %s", endpoint, body, code, data)
	}
}

// received returns the next item that the engine sends to a session, which it holds
// against its schema.
func (k *talk) received(sub *nats.Subscription) wire.Assigned {
	k.t.Helper()
	m, err := sub.NextMsg(patience)
	if err != nil {
		k.t.Fatal(err)
	}
	s, err := compiler(k.t).Compile("types.json#/$defs/Assigned")
	if err != nil {
		k.t.Fatal(err)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(m.Data, &list); err != nil || len(list) != 1 {
		k.t.Fatalf("a message of items: %v\n%s", err, m.Data)
	}
	if err := s.Validate(k.value(list[0])); err != nil {
		k.t.Errorf("an assigned item: %v\n%s", err, list[0])
	}
	var it wire.Assigned
	if err := json.Unmarshal(list[0], &it); err != nil {
		k.t.Fatal(err)
	}
	return it
}

// report sends one report of the run of an item.
func (k *talk) report(it wire.Assigned, more string) wire.Reported {
	k.t.Helper()
	r := ask[[]wire.Reported](k, wire.APIReport, fmt.Sprintf(`[{"id":%q,"token":%q,"worker":"talker","session":"s1",%s}]`, it.ID, it.Token, more))
	if len(r) != 1 || !r[0].OK {
		k.t.Fatalf("the report %s was refused: %+v", more, r)
	}
	return r[0]
}

// acked runs an item of a type whose workers ack messages, and holds the headers of its
// message against their schema.
func (k *talk) acked() {
	k.t.Helper()
	ask[wire.TypeReply](k, wire.APIConfigure, `{"type":"thumb","settings":{"protocol":"ack"}}`)
	item := ask[wire.Submitted](k, wire.APISubmit, `{"type":"thumb","labels":{"a":"b"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`)
	var m *nats.Msg
	for end := time.Now().Add(patience); m == nil; { // until the engine has made the consumer
		var err error
		m, err = k.nc.Request("$JS.API.CONSUMER.MSG.NEXT.WORK_DISPATCH.thumb", fmt.Appendf(nil, `{"batch":1,"expires":%d}`, patience), patience)
		if err != nil && (!errors.Is(err, nats.ErrNoResponders) || time.Now().After(end)) {
			k.t.Fatal(err)
		}
	}
	s, err := compiler(k.t).Compile("headers.json#/$defs/Dispatched")
	if err != nil {
		k.t.Fatal(err)
	}
	doc := map[string]any{}
	for name := range m.Header {
		doc[name] = m.Header.Get(name)
	}
	if err := s.Validate(doc); err != nil {
		k.t.Errorf("the headers of a message of an ack type: %v\n%v", err, m.Header)
	}
	if err := k.nc.Publish(m.Reply, []byte("+ACK")); err != nil {
		k.t.Fatal(err)
	}
	if it := ask[wire.Waited](k, wire.APIWait, fmt.Sprintf(`{"ids":[%q]}`, item.ID)).Ended[0]; it.State.String() != "completed" {
		k.t.Errorf("the item is %s", it.State)
	}
}

// Requests, replies, assigned items, headers and events of a living engine are valid: of an
// item's whole life by the worker protocol, spoken by hand, and of every
// endpoint.
func TestMessagesOfAnEngineAreValid(t *testing.T) {
	k := newTalk(t)
	items, err := k.nc.SubscribeSync(wire.Default.RunsOf("s1"))
	if err != nil {
		t.Fatal(err)
	}
	const me = `"worker":"talker","session":"s1","types":["talk","child"],"slots":2,"offers":true,"capabilities":["eu"]`
	ask[wire.Registered](k, wire.APIRegister, `{`+me+`}`)
	ask[wire.OK](k, wire.APIOffer, `{"worker":"talker","session":"s1","room":2}`)
	item := ask[wire.Submitted](k, wire.APISubmit, `{"type":"talk","params":{"n":1},"labels":{"a":"b"},"priority":8,"tenant":"t","max_attempts":2,"signal":{"name":"early","msg_id":"m0"},"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`)
	it := k.received(items)
	if start := k.report(it, `"event":"start"`); start.Attempt != 1 {
		t.Errorf("the start gave attempt %d", start.Attempt)
	}
	ask[wire.HeartbeatReply](k, wire.APIHeartbeat, fmt.Sprintf(`{%s,"in_flight":[{"id":%q,"token":%q}],"health":{"load":0.5}}`, me, it.ID, it.Token))
	k.report(it, `"event":"progress","percent":50,"message":"half"`)
	k.report(it, `"event":"checkpoint","checkpoint":{"at":1}`)
	ask[wire.OutputSummary](k, wire.APIOutputWrite, fmt.Sprintf(`{"id":%q,"token":%q,"offset":0,"text":"one"}`, it.ID, it.Token))
	ask[wire.OutputSummary](k, wire.APIOutputWrite, fmt.Sprintf(`{"id":%q,"token":%q,"base64":"/w=="}`, it.ID, it.Token))
	k.queries(item.ID)
	id, err := events.ParseID(item.ID)
	if err != nil {
		t.Fatal(err)
	}
	token := wire.NewWaitToken(id)
	k.report(it, fmt.Sprintf(`"event":"token","wait_token":{"name":"stop","hash":%q}`, wire.HashWaitToken(token)))
	k.report(it, `"event":"wait","wait":{"names":["go","stop"],"all":true,"for_ms":60000,"then":"fail","code":"late","error":"no answer"}`)
	if got := ask[wire.Item](k, wire.APIGet, fmt.Sprintf(`{"id":%q}`, item.ID)); got.WaitsFor == nil {
		t.Errorf("the item does not say what it waits for: %+v", got)
	}
	ask[wire.Signalled](k, wire.APISignal, fmt.Sprintf(`{"id":%q,"name":"go","payload":{"n":1},"msg_id":"m1"}`, item.ID))
	ask[wire.TokenPresented](k, wire.APIToken, fmt.Sprintf(`{"token":%q,"error":{"code":"declined","message":"no money"}}`, token))
	ask[wire.OK](k, wire.APIOffer, `{"worker":"talker","session":"s1","room":2}`)
	it = k.received(items)
	if k.report(it, `"event":"start"`); it.Waited == nil || len(it.Waited.Signals) == 0 {
		t.Errorf("the item brought no signals: %+v", it)
	}
	link := wire.NewWaitToken(id)
	k.report(it, fmt.Sprintf(`"event":"token","wait_token":{"name":"ok","hash":%q,"for":"ada"}`, wire.HashWaitToken(link)))
	k.report(it, `"event":"wait","wait":{"names":["ok"],"for_ms":60000,"then":"continue","ask":{"title":"Pay?","text":"**Really**?","choices":["approve","edit"],"form":{"type":"object"},"proposal":{"sum":3},
		"who":{"users":["ada"],"roles":["operate"]},"remind":{"every_ms":30000,"type":"remind","params":1,"most":2}}}`)
	if got := ask[wire.ApprovalsReply](k, wire.APIApprovals, `{"type":"talk","mine":true,"limit":5}`); len(got.Approvals) != 1 {
		t.Errorf("%+v", got)
	}
	ask[wire.Approval](k, wire.APIApproval, fmt.Sprintf(`{"id":%q}`, item.ID))
	ask[wire.Approval](k, wire.APILink, fmt.Sprintf(`{"token":%q}`, link))
	ask[wire.AnswerReply](k, wire.APIAnswer, fmt.Sprintf(`{"id":%q,"number":1,"choice":"edit","value":{"sum":4},"comment":"less"}`, item.ID))
	if got := ask[wire.Approval](k, wire.APIApproval, fmt.Sprintf(`{"id":%q}`, item.ID)); got.Answered == nil {
		t.Errorf("%+v", got)
	}
	ask[wire.OK](k, wire.APIOffer, `{"worker":"talker","session":"s1","room":2}`)
	it = k.received(items)
	k.report(it, `"event":"start"`)
	k.report(it, `"event":"spawn","children":[{"type":"child","params":1}],"continuation":{"name":"on"}`)
	k.report(k.received(items), `"event":"complete","start":true,"result":{"r":1}`)
	ask[wire.OK](k, wire.APIOffer, `{"worker":"talker","session":"s1","room":1}`)
	again := k.received(items)
	if k.report(again, `"event":"start"`); again.Continuation == nil || len(again.Checkpoint) == 0 {
		t.Errorf("the item brought no continuation or no checkpoint: %+v", again)
	}
	k.report(again, `"event":"fail","error":"no","code":"c","retryable":false`)
	if got := ask[wire.Waited](k, wire.APIWait, fmt.Sprintf(`{"ids":[%q]}`, item.ID)).Ended[0]; got.State.String() != "dead" {
		t.Errorf("the item is %s", got.State)
	}
	k.queries(item.ID)
	k.operate(item.ID)
	ask[wire.OK](k, wire.APIProbed, `{"worker":"talker","session":"s1","nonce":"n","failing":[{"check":"db","error":"down"}]}`)
	ask[wire.OK](k, wire.APIUnregister, `{"worker":"talker","session":"s1"}`)
	k.acked()
	k.events()
	k.namespaces() // last: JetStream may not answer while its accounts are read again
	for _, e := range Endpoints() {
		if !k.asked[e.Name] {
			t.Errorf("no message of %s was held against its schema", e.Name)
		}
	}
}

// queries asks all that can be asked of an item and of the engine.
func (k *talk) queries(id string) {
	k.t.Helper()
	one := fmt.Sprintf(`{"id":%q}`, id)
	ask[wire.Item](k, wire.APIGet, one)
	ask[wire.HistoryReply](k, wire.APIHistory, one)
	ask[wire.LogsReply](k, wire.APILogs, one)
	ask[wire.LogsReply](k, wire.APILogs, fmt.Sprintf(`{"id":%q,"after":0}`, id))
	ask[wire.OutputReply](k, wire.APIOutput, fmt.Sprintf(`{"id":%q,"after":0}`, id))
	ask[wire.AuditReply](k, wire.APIAudit, `{"action":"paused","limit":10}`)
	ask[wire.EventsReply](k, wire.APIEvents, `{"from_seq":1,"kinds":["completed"],"limit":10,"wait_ms":1}`)
	ask[wire.TreeReply](k, wire.APITree, one)
	ask[wire.WhyReply](k, wire.APIWhy, one)
	k.refused(wire.APIHeld, `{"type":"talk","key":"nobody's"}`, "not_found")
	ask[wire.Listed](k, wire.APIList, `{"type":"talk","limit":10}`)
	ask[wire.Listed](k, wire.APIList, `{"type":"nobody"}`)
	ask[wire.StatsReply](k, wire.APIStats, `{}`)
	ask[wire.TypesReply](k, wire.APITypes, `{}`)
	ask[wire.WorkersReply](k, wire.APIWorkers, `{}`)
	ask[wire.InfoReply](k, wire.APIInfo, `{}`)
	ask[wire.NodesReply](k, wire.APINodes, `{}`)
	k.refused(wire.APINodeRemove, `{"node":"n9"}`, "not_found")
	ask[wire.Listed](k, wire.APIDead, `{"type":"talk"}`)
	ask[wire.CausesReply](k, wire.APICauses, `{"all":true}`)
	ask[wire.RejectedListed](k, wire.APIRejected, `{}`)
	ask[wire.SchedulesReply](k, wire.APISchedules, `{}`)
}

// operate asks what operators ask.
func (k *talk) operate(id string) {
	k.t.Helper()
	batch := ask[wire.BatchReply](k, wire.APIBatch, `{"name":"nightly","callback":{"type":"later","delay_ms":3600000}}`)
	ask[wire.BatchReply](k, wire.APIBatch, fmt.Sprintf(`{"id":%q,"seal":true,"count":2}`, batch.ID))
	ask[wire.Listed](k, wire.APIList, fmt.Sprintf(`{"batch":%q}`, batch.ID))
	ask[wire.Item](k, wire.APIGet, fmt.Sprintf(`{"id":%q,"min_position":%q}`, batch.ID, batch.Position))
	k.refused(wire.APIBatch, `{"seal":true}`, "bad_id")
	ask[wire.Changed](k, wire.APIPause, `{"type":"talk","reason":"r","by":"b"}`)
	ask[wire.StatsReply](k, wire.APIStats, `{}`)
	ask[wire.Changed](k, wire.APIResume, `{"type":"talk"}`)
	ask[wire.Changed](k, wire.APICircuitReset, `{"type":"talk"}`)
	ask[wire.TypeReply](k, wire.APIConfigure, `{"type":"talk","settings":{"capacity":5}}`)
	ask[wire.TypeReply](k, wire.APIConfigure, `{"type":"misspelt","settings":{"capacity":5}}`)
	ask[wire.Changed](k, wire.APITypeRemove, `{"type":"misspelt"}`)
	late := ask[[]wire.Submitted](k, wire.APISubmit, `[{"type":"later","delay_ms":3600000,"dedup_key":"k"},{"type":"Bad Type"}]`)
	ask[wire.Holder](k, wire.APIHeld, `{"type":"later","key":"k"}`)
	ask[wire.Rescheduled](k, wire.APIReschedule, fmt.Sprintf(`{"id":%q,"priority":9}`, late[0].ID))
	ask[wire.Cancelled](k, wire.APICancel, fmt.Sprintf(`{"id":%q,"reason":"r"}`, late[0].ID))
	ask[wire.ReplayReply](k, wire.APIReplay, fmt.Sprintf(`{"id":%q,"reason":"r"}`, late[0].ID))
	ask[wire.BulkReply](k, wire.APIBulk, `{"action":"cancel","select":{"state":"queued","type":"later"}}`)
	ask[wire.Cancelled](k, wire.APICancel, fmt.Sprintf(`{"id":%q}`, late[0].ID)) // the bulk saw what was projected
	gone := ask[wire.ReplayReply](k, wire.APIPurge, fmt.Sprintf(`{"id":%q}`, late[0].ID))
	k.refused(wire.APIGet, fmt.Sprintf(`{"id":%q,"min_position":%q}`, late[0].ID, gone.Position), "not_found")
	ask[wire.OK](k, wire.APIDrain, `{"worker":"talker"}`)
	ask[wire.Changed](k, wire.APIUndrain, `{"worker":"talker","by":"ops"}`)
	k.schedules()
	k.rejections()
	ask[wire.Retention](k, wire.APICut, `{}`)
	ask[wire.Clock](k, wire.APIClock, `{}`)
	ask[wire.Clock](k, wire.APIClockAccept, `{"by":"ops"}`)
	for _, endpoint := range []string{wire.APIVerify, wire.APIRebuild} {
		k.stream(endpoint, `{}`)
	}
	item := ask[wire.Item](k, wire.APIGet, fmt.Sprintf(`{"id":%q}`, id))
	k.stream(wire.APIState, fmt.Sprintf(`{"at_position":%q}`, item.Position))
}

func (k *talk) schedules() {
	k.t.Helper()
	ask[wire.ScheduleReply](k, wire.APIScheduleSet, `{"name":"nightly","type":"later","cron":"0 3 * * *","params":{"a":1}}`)
	ask[wire.SchedulesReply](k, wire.APISchedules, `{}`)
	ask[wire.Submitted](k, wire.APIScheduleFire, `{"name":"nightly"}`)
	ask[wire.TicksReply](k, wire.APITicks, `{"cron":"0 3 * * *","zone":"Europe/Berlin","count":2}`)
	ask[wire.Listed](k, wire.APIList, `{"schedule":"nightly"}`)
	for _, endpoint := range []string{wire.APISchedulePause, wire.APIScheduleResume, wire.APIScheduleRemove} {
		ask[wire.ScheduleReply](k, endpoint, `{"name":"nightly"}`)
	}
}

func (k *talk) namespaces() {
	k.t.Helper()
	ask[wire.NamespaceReply](k, wire.APINamespaceSet, `{"name":"acme","node":"","limits":{"max_queued":1000,"max_log_bytes":10485760}}`)
	ask[wire.NamespaceReply](k, wire.APINamespaceChange, `{"name":"acme","paused":true}`)
	ask[wire.NamespacesReply](k, wire.APINamespaces, `{}`)
	ask[wire.NamespaceInfo](k, wire.APINamespace, `{"name":"acme"}`)
	ask[wire.NamespaceRemoval](k, wire.APINamespaceRemove, `{"name":"acme","dry_run":true}`)
	ask[wire.NamespaceRemoval](k, wire.APINamespaceRemove, `{"name":"acme","force":true,"by":"ops"}`)
	k.refused(wire.APINamespaceRemove, `{"name":"nobody"}`, "not_found")
}

// rejections makes a rejected submission and does all to it that can be done.
func (k *talk) rejections() {
	k.t.Helper()
	for range 2 {
		if err := k.nc.PublishMsg(&nats.Msg{Subject: "work.submit.talk", Data: []byte("no json")}); err != nil {
			k.t.Fatal(err)
		}
	}
	var list wire.RejectedListed
	for end := time.Now().Add(patience); len(list.Rejected) < 2; {
		if time.Now().After(end) {
			k.t.Fatal("the submission was not rejected")
		}
		list = ask[wire.RejectedListed](k, wire.APIRejected, `{"type":"talk"}`)
	}
	seq := fmt.Sprintf(`{"seq":%d`, list.Rejected[0].Seq)
	ask[wire.Rejected](k, wire.APIShowRejected, seq+`}`)
	ask[wire.Submitted](k, wire.APIReplayRejected, seq+`,"params":{"ok":true}}`)
	ask[wire.PurgedRejected](k, wire.APIPurgeRejected, fmt.Sprintf(`{"seq":%d}`, list.Rejected[1].Seq))
}

// stream asks for what is answered by several replies, the last of which is
// done.
func (k *talk) stream(endpoint, body string) {
	k.t.Helper()
	k.asked[endpoint] = true
	if err := check(k.endpoint[endpoint].request, body); err != nil {
		k.t.Errorf("the request %s %s: %v", endpoint, body, err)
	}
	inbox := k.nc.NewInbox()
	sub, err := k.nc.SubscribeSync(inbox)
	if err != nil {
		k.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := k.nc.PublishRequest(wire.Default.API(endpoint), inbox, []byte(body)); err != nil {
		k.t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(patience)
		if err != nil {
			k.t.Fatalf("%s: %v", endpoint, err)
		}
		if err := k.endpoint[endpoint].reply.Validate(k.value(m.Data)); err != nil {
			k.t.Errorf("the reply to %s: %v\n%s", endpoint, err, m.Data)
		}
		var r struct {
			Done  bool        `json:"done"`
			Error *wire.Error `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &r); err != nil || r.Error != nil {
			k.t.Fatalf("%s: %v %v", endpoint, err, r.Error)
		}
		if r.Done {
			return
		}
	}
}

// events holds the whole log against its schema.
func (k *talk) events() {
	k.t.Helper()
	s, err := compiler(k.t).Compile("events.json")
	if err != nil {
		k.t.Fatal(err)
	}
	js, err := k.nc.JetStream()
	if err != nil {
		k.t.Fatal(err)
	}
	sub, err := js.SubscribeSync("work.frame.>", nats.OrderedConsumer(), nats.DeliverAll())
	if err != nil {
		k.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	n := 0
	for {
		m, err := sub.NextMsg(patience)
		if err != nil {
			k.t.Fatal(err)
		}
		for line := range bytes.Lines(m.Data) {
			n++
			if err := s.Validate(k.value(line)); err != nil {
				k.t.Errorf("an event on %s: %v\n%s", m.Subject, err, line)
			}
		}
		if meta, err := m.Metadata(); err != nil || meta.NumPending == 0 {
			break
		}
	}
	if n < 10 {
		k.t.Errorf("there were %d events", n)
	}
}

// The folder of schemas holds nothing but what is rendered.
func TestSchemaFolderHoldsNothingElse(t *testing.T) {
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(root, "schemas", Version))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files["schemas/"+Version+"/"+e.Name()] == nil {
			t.Errorf("schemas/%s/%s is not rendered by this package", Version, e.Name())
		}
	}
}
