package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/leaks"
	"github.com/streamwright/streamwright/streamwrighttest"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// client is a session with a server over an engine in memory.
type client struct {
	t      *testing.T
	engine *streamwrighttest.Engine
	server *mcp.Server
	*mcp.ClientSession
}

func connect(t *testing.T, allow wire.Roles, more ...func(*workers.Worker)) *client {
	t.Helper()
	e := streamwrighttest.New(t, func(w *workers.Worker) {
		workers.HandleRaw(w, "email", func(_ context.Context, it *workers.RawItem) (any, error) {
			if strings.Contains(string(it.Raw), "bad") {
				return nil, errors.New("no mailbox 4711 here")
			}
			return "sent", nil
		})
		for _, fn := range more {
			fn(w)
		}
	})
	s := New(Options{Client: e.Client(), Version: "test", Allow: allow})
	here, there := mcp.NewInMemoryTransports()
	session, err := s.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); _ = session.Wait() })
	return &client{t, e, s, c}
}

// call calls a tool and reads its answer into out. If the tool refuses, call returns the reason.
func (c *client) call(tool string, args map[string]any, out any) (text string) {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error()
	}
	if len(r.Content) != 1 {
		c.t.Fatalf("%s answers with %d contents", tool, len(r.Content))
	}
	text = r.Content[0].(*mcp.TextContent).Text
	if r.IsError {
		return text
	}
	if len(text) > MaxReply {
		c.t.Errorf("%s answers with %d bytes", tool, len(text))
	}
	if out != nil {
		reflect.ValueOf(out).Elem().SetZero()
		if err := json.Unmarshal([]byte(text), out); err != nil {
			c.t.Fatalf("%s answers %s: %v", tool, text, err)
		}
	}
	return ""
}

// must is call for what is not refused.
func (c *client) must(tool string, args map[string]any, out any) {
	c.t.Helper()
	if refused := c.call(tool, args, out); refused != "" {
		c.t.Fatalf("%s: %s", tool, refused)
	}
}

func (c *client) submit(it streamwright.Item) string {
	c.t.Helper()
	s, err := c.engine.Client().Submit(c.t.Context(), it)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.ID
}

// state is what the tests look at of an item that is shown as a whole.
type state struct {
	State    events.ItemState
	Priority int
}

const operates = wire.Roles(wire.RoleSubmit | wire.RoleOperate)

// The tools that there are, by what is allowed; each says what it is, in few words, and
// whether it changes something.
func TestTools(t *testing.T) {
	for _, tc := range []struct {
		allow wire.Roles
		count int
	}{{0, 15}, {wire.Roles(wire.RoleSubmit), 17}, {operates, 27}} {
		c := connect(t, tc.allow)
		r, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Tools) != tc.count {
			t.Errorf("with %q there are %d tools, not %d", tc.allow, len(r.Tools), tc.count)
		}
		for _, tool := range r.Tools {
			a := tool.Annotations
			if n := len(tool.Description); n < 20 || n > 300 || a == nil || tc.allow == 0 && !a.ReadOnlyHint {
				t.Errorf("%s: %q, %+v", tool.Name, tool.Description, a)
			}
			destroys := slices.Contains([]string{"cancel_item", "purge_item", "change_items"}, tool.Name)
			if *a.DestructiveHint != destroys {
				t.Errorf("%s is destructive: %v", tool.Name, *a.DestructiveHint)
			}
			schema, _ := json.Marshal(tool.InputSchema)
			if destroys != strings.Contains(string(schema), `"confirm"`) {
				t.Errorf("%s takes %s", tool.Name, schema)
			}
		}
	}
}

// What an engine with some items shows of them.
func TestReading(t *testing.T) {
	c := connect(t, 0)
	long := strings.Repeat("long ", 4000)
	sent := c.submit(streamwright.Item{Type: "email", Params: map[string]string{"to": "ada", "text": long}, Tenant: "acme"})
	dead := c.submit(streamwright.Item{Type: "email", Params: "bad", MaxAttempts: 1})
	c.engine.Drain()
	waits := c.submit(streamwright.Item{Type: "other", Delay: time.Hour})

	var status struct {
		States map[string]int `json:"items_by_state"`
		Types  []typeBrief    `json:"types_with_most_to_do"`
	}
	c.must("status", nil, &status)
	if status.States["completed"] != 1 || status.States["dead"] != 1 || status.States["queued"] != 1 || len(status.Types) != 2 {
		t.Errorf("status: %+v", status)
	}
	var items listed
	c.must("list_items", map[string]any{"type": "email", "limit": 1}, &items)
	first := items
	c.must("list_items", map[string]any{"type": "email", "limit": 1, "cursor": items.NextCursor}, &items)
	if len(first.Items) != 1 || len(items.Items) != 1 || first.Items[0].ID == items.Items[0].ID {
		t.Errorf("pages of one: %+v, %+v", first, items)
	}
	c.must("search_items", map[string]any{"query": "mailbox"}, &items)
	if len(items.Items) != 1 || items.Items[0].ID != dead || items.Items[0].Error != "no mailbox 4711 here" {
		t.Errorf("found: %+v", items)
	}
	var shown struct {
		Params, Result json.RawMessage
	}
	c.must("show_item", map[string]any{"id": sent}, &shown)
	if string(shown.Result) != `"sent"` || len(shown.Params) > maxDocument+200 || !strings.Contains(string(shown.Params), "[cut: the document has 2") {
		t.Errorf("shown: %s, %s", shown.Result, shown.Params[max(0, len(shown.Params)-100):])
	}
	var why streamwright.Explanation
	c.must("explain_item", map[string]any{"id": waits}, &why)
	if len(why.Reasons) == 0 || why.Reasons[0].Code != events.WhyNotDue {
		t.Errorf("why: %+v", why)
	}
	var history struct {
		Count  int
		Events []streamwright.Event
	}
	c.must("item_history", map[string]any{"id": sent, "limit": 2}, &history)
	if history.Count != 5 || len(history.Events) != 2 || history.Events[1].Kind != events.KindCompleted {
		t.Errorf("history: %+v", history)
	}
	var causes streamwright.Causes
	c.must("dead_causes", nil, &causes)
	if len(causes.Causes) != 1 || causes.Causes[0].Dead != 1 {
		t.Fatalf("causes: %+v", causes)
	}
	c.must("list_items", map[string]any{"cause": causes.Causes[0].Cause}, &items)
	if len(items.Items) != 1 || items.Items[0].ID != dead {
		t.Errorf("of the cause: %+v", items)
	}
	var types struct {
		Count int
		Types []typeBrief
	}
	c.must("list_types", map[string]any{"type": "email"}, &types)
	if types.Count != 1 || types.Types[0].Settings == nil || types.Types[0].States["completed"] != 1 {
		t.Errorf("types: %+v", types)
	}
	c.must("list_types", nil, &types)
	all, second := types.Count, types.Types[1].Type
	if c.must("list_types", map[string]any{"limit": 1, "skip": 1}, &types); types.Count != all || len(types.Types) != 1 || types.Types[0].Type != second {
		t.Errorf("the second of %d types: %+v", all, types)
	}
	var ended state
	c.must("wait_for_item", map[string]any{"id": sent}, &ended)
	if ended.State != events.StateCompleted {
		t.Errorf("waited: %+v", ended)
	}
	c.must("wait_for_item", map[string]any{"id": waits, "timeout_seconds": 0.01}, &ended)
	if ended.State != events.StateQueued {
		t.Errorf("waited in vain: %+v", ended)
	}
	for _, tool := range []string{"list_workers", "list_schedules"} {
		c.must(tool, nil, nil)
	}
	for _, tool := range []string{"item_logs", "item_tree"} {
		c.must(tool, map[string]any{"id": sent}, nil)
	}
}

// Bad input is refused in words that say what to do; what is not allowed isn't there.
func TestRefusals(t *testing.T) {
	c := connect(t, operates)
	for tool, tc := range map[string]struct {
		args map[string]any
		says string
	}{
		"show_item":     {map[string]any{"id": "01JD3V6YB2M4C9W8ZK5T7QXRNE"}, "not_found"},
		"list_items":    {map[string]any{"created_after": "yesterday"}, `created_after is "yesterday": write it as`},
		"item_history":  {map[string]any{"id": "01JD3V6YB2M4C9W8ZK5T7QXRNE", "limit": 51}, "limit is 51: it must be 1 to 50"},
		"list_types":    {map[string]any{"type": "nope"}, `there is no type "nope"`},
		"submit_item":   {map[string]any{"type": "email", "idempotency_key": ""}, "idempotency_key is missing"},
		"change_items":  {map[string]any{"action": "purge", "state": "dead", "reason": "all"}, "name nothing but a state"},
		"cancel_item":   {map[string]any{"id": "01JD3V6YB2M4C9W8ZK5T7QXRNE", "reason": "r", "confirm": "x"}, "unknown, used, or older"},
		"search_items":  {nil, "query"},
		"no_such_tools": {nil, "no_such_tools"},
	} {
		if said := c.call(tool, tc.args, nil); !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q does not say %q", tool, said, tc.says)
		}
	}
	for _, tool := range []string{"submit_item", "cancel_item"} {
		if said := connect(t, 0).call(tool, map[string]any{"type": "email", "id": "x", "reason": "r", "idempotency_key": "k"}, nil); !strings.Contains(said, "unknown tool") {
			t.Errorf("%s without being allowed: %q", tool, said)
		}
	}
}

// Items are submitted once, however often the model asks; a dead one is queued again.
func TestSubmitting(t *testing.T) {
	c := connect(t, operates)
	var first, again streamwright.Submitted
	args := map[string]any{"type": "email", "params": map[string]any{"to": "bad"}, "idempotency_key": "k", "priority": 9}
	c.must("submit_item", args, &first)
	c.must("submit_item", args, &again)
	if again.ID != first.ID || !again.Repeat {
		t.Errorf("%+v, then %+v", first, again)
	}
	if _, err := c.engine.Client().Types().Configure(t.Context(), "email", streamwright.Settings{MaxAttempts: new(1)}); err != nil {
		t.Fatal(err)
	}
	c.engine.Drain()
	c.must("retry_item", map[string]any{"id": first.ID, "reason": "mended", "params": "good"}, nil)
	c.engine.Drain()
	var it state
	c.must("show_item", map[string]any{"id": first.ID}, &it)
	if it.State != events.StateCompleted || it.Priority != 9 {
		t.Errorf("%+v", it)
	}
}

func TestWaiting(t *testing.T) {
	c := connect(t, wire.Roles(wire.RoleSubmit), func(w *workers.Worker) {
		workers.HandleRaw(w, "pay", func(_ context.Context, it *workers.RawItem) (any, error) {
			if s, ok := it.Signal("go"); ok {
				return s.Payload, nil
			}
			if _, err := it.Output().Write([]byte(strings.Repeat("\x01", maxOutput) + "thinking")); err != nil {
				return nil, err
			}
			if string(it.Raw) == "true" {
				return workers.Ask("ok", workers.Question{Title: "Pay?"}).For(time.Hour), nil
			}
			return workers.Wait("go").For(time.Hour), nil
		})
	})
	waits, asks := c.submit(streamwright.Item{Type: "pay"}), c.submit(streamwright.Item{Type: "pay", Params: true})
	c.engine.Drain()
	var output struct {
		Bytes, From int
		Text        string
	}
	c.must("item_output", map[string]any{"id": waits}, &output)
	if output.Bytes != maxOutput+8 || output.From != 8 || !strings.HasSuffix(output.Text, "thinking") {
		t.Errorf("%+v", output)
	}
	var open streamwright.ApprovalPage
	c.must("list_approvals", map[string]any{"type": "pay"}, &open)
	if len(open.Approvals) != 1 || open.Approvals[0].ID != asks || open.Approvals[0].Title != "Pay?" {
		t.Errorf("%+v", open)
	}
	if why := c.call("signal_item", map[string]any{"id": asks, "name": "ok", "msg_id": "m"}, nil); why == "" {
		t.Error("a signal has answered a question")
	}
	var first, again streamwright.Signalled
	args := map[string]any{"id": waits, "name": "go", "payload": map[string]int{"n": 1}, "msg_id": "m"}
	c.must("signal_item", args, &first)
	c.must("signal_item", args, &again)
	if first.Repeat || !again.Repeat {
		t.Errorf("%+v, then %+v", first, again)
	}
	c.engine.Drain()
	var it struct {
		State  events.ItemState
		Result json.RawMessage
	}
	c.must("show_item", map[string]any{"id": waits}, &it)
	if it.State != events.StateCompleted || string(it.Result) != `{"n":1}` {
		t.Errorf("%+v", it)
	}
	args["msg_id"] = ""
	if why := c.call("signal_item", args, nil); !strings.Contains(why, "msg_id is missing") {
		t.Error(why)
	}
}

// What can't be undone, or is done to many, is done by a second call alone: with the same
// arguments, the token of the first, and once.
func TestConfirming(t *testing.T) {
	c := connect(t, operates)
	id := c.submit(streamwright.Item{Type: "email", Delay: time.Hour})
	for i := range 3 {
		c.submit(streamwright.Item{Type: "other", Params: i, Delay: time.Hour})
	}
	cancel := map[string]any{"id": id, "reason": "no longer wanted"}
	var p proposal
	c.must("cancel_item", cancel, &p)
	var it state
	c.must("show_item", map[string]any{"id": id}, &it)
	if it.State != events.StateQueued || p.Confirm == "" || p.Would != "cancel item "+id {
		t.Fatalf("%+v; the item is %s", p, it.State)
	}
	if said := c.call("cancel_item", map[string]any{"id": id, "reason": "other", "confirm": p.Confirm}, nil); !strings.Contains(said, "other arguments") {
		t.Errorf("with another reason: %q", said)
	}
	cancel["confirm"] = p.Confirm
	c.must("cancel_item", cancel, nil)
	if c.must("show_item", map[string]any{"id": id}, &it); it.State != events.StateCancelled {
		t.Errorf("the item is %s", it.State)
	}
	if said := c.call("cancel_item", cancel, nil); !strings.Contains(said, "unknown, used") {
		t.Errorf("once more: %q", said)
	}

	many := map[string]any{"action": "cancel", "type": "other", "reason": "all of them"}
	c.must("change_items", many, &p)
	if p.Would != "cancel 3 items" {
		t.Errorf("%+v", p)
	}
	many["confirm"] = p.Confirm
	var did streamwright.BulkResult
	if c.must("change_items", many, &did); did.Changed != 3 {
		t.Errorf("%+v", did)
	}
	delete(many, "confirm")
	var none map[string]int
	if c.must("change_items", many, &none); none["matched"] != 0 {
		t.Errorf("%+v", none)
	}
}

// Proposals end, and only so many are kept.
func TestProposalsEnd(t *testing.T) {
	now := time.Now()
	c := confirmations{now: func() time.Time { return now }}
	first := c.propose("call", "", nil)
	now = now.Add(confirmWithin)
	if c.use(first.Confirm, "call") == nil {
		t.Error("a token outlives its time")
	}
	first = c.propose("call", "", nil)
	for range maxConfirms {
		c.propose("another", "", nil)
	}
	if len(c.out) != maxConfirms || c.use(first.Confirm, "call") == nil {
		t.Errorf("%d proposals are kept", len(c.out))
	}
}

// Types, workers and their pauses, drains and circuits.
func TestOperating(t *testing.T) {
	c := connect(t, operates)
	id := c.submit(streamwright.Item{Type: "email", Delay: time.Hour})
	var did struct{ Changed bool }
	for _, call := range []struct {
		tool string
		args map[string]any
		did  bool
	}{
		{"pause_type", map[string]any{"type": "email", "reason": "provider is down", "minutes": 5}, true},
		{"resume_type", map[string]any{"type": "email"}, true},
		{"resume_type", map[string]any{"type": "email"}, false},
		{"reset_circuit", map[string]any{"type": "email"}, false},
		{"undrain_worker", map[string]any{"worker": "nobody"}, false},
	} {
		if c.must(call.tool, call.args, &did); did.Changed != call.did {
			t.Errorf("%s %v: changed is %v", call.tool, call.args, did.Changed)
		}
	}
	var it state
	if c.must("reschedule_item", map[string]any{"id": id, "priority": 1, "now": true}, &it); it.Priority != 1 {
		t.Errorf("%+v", it)
	}
	if c.must("reschedule_item", map[string]any{"id": id, "priority": 0}, &it); it.Priority != 0 {
		t.Errorf("%+v", it)
	}
	if said := c.call("reschedule_item", map[string]any{"id": id, "priority": -1}, nil); !strings.Contains(said, "priority") {
		t.Errorf("priority -1: %q", said)
	}
}

// An answer that is too large is refused, not cut in the middle.
func TestTooLarge(t *testing.T) {
	if _, err := reply(strings.Repeat("x", MaxReply)); err == nil || !strings.Contains(err.Error(), "ask for less") {
		t.Errorf("got %v", err)
	}
	if got := clipped(json.RawMessage(`"ää"`), 2); !json.Valid(got) || !strings.Contains(string(got), "the document has 6 bytes") {
		t.Errorf("cut to %s", got)
	}
}

// Over HTTP a token is asked for if there is one, and web pages are kept out if there is
// none.
func TestHTTP(t *testing.T) {
	c := connect(t, 0)
	const token = "0123456789abcdef"
	secured, open := httptest.NewServer(HTTP(c.server, token, nil)), httptest.NewServer(HTTP(c.server, "", nil))
	defer secured.Close()
	defer open.Close()
	ask := func(url string, header http.Header) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		if header.Get("Host") != "" {
			req.Host = header.Get("Host")
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	for _, tc := range []struct {
		name   string
		url    string
		header http.Header
		code   int
	}{
		{"no token", secured.URL, http.Header{}, http.StatusUnauthorized},
		{"another token", secured.URL, http.Header{"Authorization": {"Bearer 0123456789abcdeX"}}, http.StatusUnauthorized},
		{"another host", open.URL, http.Header{"Host": {"evil.example"}}, http.StatusForbidden},
		{"a web page", open.URL, http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
	} {
		if code := ask(tc.url, tc.header); code != tc.code {
			t.Errorf("%s: %d, not %d", tc.name, code, tc.code)
		}
	}
	for _, to := range []*mcp.StreamableClientTransport{
		{Endpoint: open.URL},
		{Endpoint: secured.URL, HTTPClient: &http.Client{Transport: bearer(token)}},
	} {
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), to, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "status"})
		if err != nil || r.IsError {
			t.Errorf("status: %+v, %v", r, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", fmt.Sprint("Bearer ", string(b)))
	return http.DefaultTransport.RoundTrip(r)
}

// The guide's table has the tools, and no others.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	var told, there []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			list, _, _ := strings.Cut(line[2:], " |")
			for _, name := range strings.Split(list, ", ") {
				told = append(told, strings.Trim(name, "`"))
			}
		}
	}
	r, err := connect(t, operates).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range r.Tools {
		there = append(there, tool.Name)
	}
	slices.Sort(told)
	slices.Sort(there)
	if !slices.Equal(told, there) {
		t.Errorf("the guide has %v, the server %v", told, there)
	}
}
