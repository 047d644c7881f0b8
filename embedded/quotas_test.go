package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

func limit[T int | int64](v T) *T { return &v }

// metered starts an engine with the users ann and bob, who submit, and quotas.
func metered(t *testing.T, q quota.Settings) *Engine {
	t.Helper()
	tokens, _ := tokens()
	c := config.Default()
	for _, name := range []string{"ann", "bob"} {
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: name, Password: testPassword, Roles: access.InDefault(access.RolesOf(access.Submit))})
	}
	c.Quotas = q
	return mustStart(t, Options{Config: c, Memory: true, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", HTTPTokens: tokens})
}

func submitters(l quota.Limits) quota.Settings {
	return quota.Settings{Roles: map[access.Role]quota.Limits{access.Submit: l}}
}

// metre asks the engine as its users do.
type metre struct {
	t     *testing.T
	e     *Engine
	users map[string]*nats.Conn
}

func newMetre(t *testing.T, e *Engine) *metre {
	t.Helper()
	m := &metre{t, e, map[string]*nats.Conn{}}
	for _, user := range []string{"ann", "bob"} {
		c, _ := as(t, e, user)
		m.users[user] = c.Conn()
	}
	var err error
	if m.users[""], err = e.Connect(); err != nil { // this process's own
		t.Fatal(err)
	}
	t.Cleanup(m.users[""].Close)
	return m
}

// ask makes a request of the API as a user; nil if it is granted.
func (m *metre) ask(user, endpoint, body string) *wire.Error {
	m.t.Helper()
	reply, err := m.users[user].RequestWithContext(testContext(m.t), wire.Default.API(endpoint), []byte(body))
	if err != nil {
		m.t.Fatal(err)
	}
	return refusalOf(m.t, reply)
}

func refusalOf(t *testing.T, reply *nats.Msg) *wire.Error {
	t.Helper()
	if reply.Header.Get("Nats-Service-Error-Code") == "" {
		return nil
	}
	var e wire.ErrorReply
	if err := json.Unmarshal(reply.Data, &e); err != nil {
		t.Fatal(err)
	}
	return e.Error
}

// overQuota fails unless a request was refused by quota.
func (m *metre) overQuota(e *wire.Error, limit string) time.Duration {
	m.t.Helper()
	if e == nil || e.Code != events.CodeQuotaExceeded || !strings.Contains(e.Message, limit) {
		m.t.Fatalf("got %+v, want a refusal by the quota %s", e, limit)
	}
	return e.RetryAfter.Duration
}

func (m *metre) granted(e *wire.Error) {
	m.t.Helper()
	if e != nil {
		m.t.Fatalf("it is refused: %+v", e)
	}
}

const one = `{"type":"email","params":{"a":1}}`

// A user who has used up the rate is refused, before anything is stored, and
// may go on when retry_after_ms is over. Nobody else is.
func TestQuotaOfItems(t *testing.T) {
	t.Parallel()
	e := metered(t, submitters(quota.Limits{ItemsPerSecond: limit(10)}))
	m := newMetre(t, e)
	batch := "[" + strings.Repeat(one+",", 249) + one + "]"
	m.granted(m.ask("ann", wire.APISubmit, batch)) // 25 s worth
	at := e.decider.dispatcher.Position()
	wait := m.overQuota(m.ask("ann", wire.APISubmit, one), quota.Items)
	if e.decider.dispatcher.Position() != at {
		t.Error("what was refused has left an event")
	}
	if wait < 5*time.Second || wait > 24*time.Second {
		t.Errorf("retry_after is %s, for 250 items at 10 a second less a second's worth", wait)
	}
	for range 8 {
		m.granted(m.ask("bob", wire.APISubmit, one))
		m.granted(m.ask("", wire.APISubmit, one)) // the engine's own
	}
	m.overQuota(m.ask("ann", wire.APISubmit, one), quota.Items)
	if err := e.Advance(testContext(t), wait); err != nil {
		t.Fatal(err)
	}
	m.granted(m.ask("ann", wire.APISubmit, one))
	if status := metricsPage(t, e); !strings.Contains(status, `streamwright_quota_refusals_total{limit="items_per_second",roles="submit"} 2`) {
		t.Error("the refusals are not counted by role")
	}
}

func TestQuotaOfTypes(t *testing.T) {
	e := metered(t, submitters(quota.Limits{Types: limit(2)}))
	m := newMetre(t, e)
	submit := func(user, typ string) *wire.Error { return m.ask(user, wire.APISubmit, `{"type":"`+typ+`"}`) }
	m.granted(submit("", "there"))
	if err := e.decider.dispatcher.Await(testContext(t), e.decider.dispatcher.Position()); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"w", "x", "y", "z"} { // refused, so none is created
		if err := m.ask("ann", wire.APISubmit, `{"type":"`+typ+`","after":["01JD3V6YB2M4C9W8ZK5T7QXRNE"]}`); err == nil || err.Code != events.CodeNotFound {
			t.Fatalf("after an unknown item: %+v", err)
		}
	}
	for _, typ := range []string{"there", "a", "b", "a", "there", "b"} {
		m.granted(submit("ann", typ))
	}
	if m.overQuota(submit("ann", "c"), quota.Types) != 0 {
		t.Error("it says when to try again, which would not help")
	}
	m.granted(submit("bob", "c"))
	if err := e.decider.dispatcher.Await(testContext(t), e.decider.dispatcher.Position()); err != nil {
		t.Fatal(err)
	}
	m.granted(submit("ann", "c")) // it is there now
}

func TestQuotaOfWaits(t *testing.T) {
	e := metered(t, submitters(quota.Limits{Waits: limit(2)}))
	m := newMetre(t, e)
	ctx := testContext(t)
	c, err := e.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	item, err := c.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	wait := func(user string) *nats.Subscription {
		t.Helper()
		nc := m.users[user]
		inbox, err := nc.SubscribeSync(nc.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest(wire.Default.API(wire.APIWait), inbox.Subject, []byte(`{"ids":["`+item.ID+`"]}`)); err != nil {
			t.Fatal(err)
		}
		return inbox
	}
	answer := func(s *nats.Subscription) *wire.Error {
		t.Helper()
		msg, err := s.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return refusalOf(t, msg)
	}
	first, second := wait("ann"), wait("ann")
	m.overQuota(answer(wait("ann")), quota.Waits)
	others := wait("bob")
	if _, _, err := c.Cancel(ctx, item.ID, "test"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*nats.Subscription{first, second, others} {
		m.granted(answer(s))
	}
	m.granted(answer(wait("ann"))) // they have been counted out
}

// Over HTTP the token is the user.
func TestQuotasOverHTTP(t *testing.T) {
	e := metered(t, quota.Settings{
		Roles: map[access.Role]quota.Limits{
			access.Submit: {ItemsPerSecond: limit(1)}, access.Read: {Waits: limit(1)}, access.Operate: {RequestsPerSecond: limit(1)},
		},
		Users: map[string]quota.Limits{"work": {RequestsPerSecond: limit(1)}},
	})
	_, token := tokens()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	do := func(role access.Role, method, path, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(testContext(t), method, e.HTTPURL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token[role])
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	refused := func(resp *http.Response) {
		t.Helper()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
			t.Fatalf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	for range 2 {
		if resp := do(access.Submit, "POST", "/api/v1/work", one); resp.StatusCode != http.StatusCreated {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	refused(do(access.Submit, "POST", "/api/v1/work", one))

	feed := do(access.Read, "GET", "/api/v1/events", "")
	if feed.StatusCode != http.StatusOK {
		t.Fatalf("status %d", feed.StatusCode)
	}
	refused(do(access.Read, "GET", "/api/v1/events", ""))
	if resp := do(access.Read, "GET", "/api/v1/work", ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("a list is refused: status %d", resp.StatusCode)
	}

	for range 2 {
		do(access.Operate, "POST", "/api/v1/types/email/pause", "{}")
	}
	refused(do(access.Operate, "POST", "/api/v1/types/email/pause", "{}"))

	for range 5 { // about its runs a worker is heard
		if resp := do(access.Work, "POST", "/api/v1/workers", `{"worker":"w1","types":["email"],"slots":1}`); resp.StatusCode == http.StatusTooManyRequests {
			t.Fatal("a worker is refused its word")
		}
	}
}

// Without quotas nobody is refused, and a header that a user can't make is
// refused only where it counts.
func TestNoQuotasByDefault(t *testing.T) {
	e := metered(t, quota.Settings{})
	m := newMetre(t, e)
	for range 300 {
		m.granted(m.ask("ann", wire.APISubmit, one))
	}
	if e.faces.quotas != nil {
		t.Error("there are quotas by default")
	}
}

// Who may not publish submits by requests, which are counted.
func TestNoPublish(t *testing.T) {
	e := guarded(t, func(c *config.Config) {
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: "counted", Password: testPassword, Roles: access.InDefault(access.RolesOf(access.Submit)), NoPublish: true})
	})
	reader, _ := as(t, e, "read")
	submitted := 0
	for _, user := range []string{"counted", "submit"} {
		may := user == "submit"
		c, _ := as(t, e, user)
		if err := c.Conn().Publish(wire.Default.Submit("email"), []byte(`{"plain":true}`)); err != nil {
			t.Fatal(err)
		}
		if may {
			if _, err := c.Conn().RequestWithContext(testContext(t), wire.Default.Submit("email"), []byte(`{"plain":true}`)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Submit(testContext(t), streamwright.Item{Type: "email"}); err != nil { // behind it
			t.Fatal(err)
		}
		submitted++
		if may {
			submitted += 2
		}
		need.Eventually(t, fmt.Sprintf("%d items are there: may %s publish: %v", submitted, user, may), func() bool {
			page, err := reader.List(testContext(t), streamwright.Filter{Type: "email"})
			return err == nil && len(page.Items) == submitted
		})
	}
}

// Nobody asks in another's name: the server says who asks, whatever the message
// says.
func TestForgedRequestInfo(t *testing.T) {
	e := metered(t, submitters(quota.Limits{ItemsPerSecond: limit(10)}))
	m := newMetre(t, e)
	batch := "[" + strings.Repeat(one+",", 99) + one + "]"
	m.granted(m.ask("ann", wire.APISubmit, batch))
	for _, values := range [][]string{{`{"acc":"WORK_bob"}`}, {`{"acc":"WORK"}`}, {`{"acc":"WORK"}`, `{"acc":"WORK_bob"}`}, {"x"}} {
		for _, name := range []string{wire.HeaderRequestInfo, "nats-request-info", "X-" + wire.HeaderRequestInfo} {
			reply, err := m.users["ann"].RequestMsgWithContext(testContext(t), &nats.Msg{Subject: wire.Default.API(wire.APISubmit), Header: nats.Header{name: values}, Data: []byte(one)})
			if err != nil {
				t.Fatal(err)
			}
			if refusalOf(t, reply) == nil {
				t.Errorf("with %q: %q ann gets past its quota", name, values)
			}
		}
	}
	m.granted(m.ask("bob", wire.APISubmit, one))

	// Bytes by which the server misses what the message says of who asks, and the
	// engine's NATS client what the server says.
	for _, named := range []string{"bob", processUser, "nobody", e.srv.named("bob")[:8]} {
		forged := "NATS/1.0\nNats-Request-Info: {\"acc\":\"WORK_" + named + "\"}\r\n"
		for _, header := range []string{forged + ":\r\n", forged + "\r\nX: y\r\n\r\n", "NATS/1.0\r\nX: y\r\n", "NATS/1.0\r\nX: y\r\n:\r\n"} {
			if reply := rawRequest(t, e, "ann", wire.Default.API(wire.APISubmit), header, one); !strings.Contains(reply, string(events.CodeBadHeader)) {
				t.Errorf("with the header %q ann is not refused: %s", header, reply)
			}
		}
	}

	// Headers that the engine's NATS client can't decode reach it as none.
	for _, header := range []string{"NATS/1.0\r\n no name\r\n\r\n", "NATS/1.0\r\nX\r\n\r\n", "NATS/1.0\r\n: x\r\n\r\n"} {
		if reply := rawRequest(t, e, "ann", wire.Default.API(wire.APISubmit), header, one); !strings.Contains(reply, string(events.CodeBadHeader)) && !strings.Contains(reply, string(events.CodeQuotaExceeded)) {
			t.Errorf("with the header %q ann gets past its quota: %s", header, reply)
		}
	}
}

// rawRequest makes a request with any bytes for a header, and returns what comes.
func rawRequest(t *testing.T, e *Engine, user, subject, header, body string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	if _, err := fmt.Fprintf(conn, "CONNECT {\"user\":%q,\"pass\":%q,\"headers\":true,\"verbose\":false}\r\nSUB _INBOX.raw 1\r\nHPUB %s _INBOX.raw %d %d\r\n%s%s\r\n",
		user, testPassword, subject, len(header), len(header)+len(body), header, body); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	lines := bufio.NewReader(conn)
	for !strings.Contains(got.String(), "}") || !strings.Contains(got.String(), "MSG _INBOX.raw") {
		line, err := lines.ReadString('}')
		if got.WriteString(line); err != nil {
			t.Fatalf("%s: %v", got.String(), err)
		}
	}
	rest, _ := lines.Peek(lines.Buffered())
	return got.String() + string(rest)
}

// The limits that the server enforces are in force in the user's account.
func TestAccountLimits(t *testing.T) {
	e := metered(t, quota.Settings{
		Roles: map[access.Role]quota.Limits{access.Submit: {Connections: limit(2)}},
		Users: map[string]quota.Limits{"ann": {PayloadBytes: limit(int64(2048))}},
	})
	connect := func(user string) (*nats.Conn, error) {
		nc, err := nats.Connect(e.URL(), nats.UserInfo(user, testPassword), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return nc, err
	}
	submit := func(nc *nats.Conn, bytes int) error {
		_, err := nc.RequestWithContext(testContext(t), wire.Default.API(wire.APISubmit), []byte(`{"type":"email","params":"`+strings.Repeat("x", bytes)+`"}`))
		return err
	}
	var last *nats.Conn
	for range 2 {
		nc, err := connect("ann")
		if err != nil {
			t.Fatal(err)
		}
		last = nc
	}
	if _, err := connect("ann"); err == nil || !strings.Contains(err.Error(), "maximum account active connections") {
		t.Errorf("a third connection: %v", err)
	}
	if err := submit(last, 1000); err != nil {
		t.Error(err)
	}
	if err := submit(last, 3000); err == nil {
		t.Error("a message beyond payload is taken")
	}
	if nc, err := connect("bob"); err != nil {
		t.Error(err)
	} else if err := submit(nc, 3000); err != nil {
		t.Errorf("bob is disturbed: %v", err)
	}
}

func jetstreamOf(t *testing.T, e *Engine) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(e.nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func metricsPage(t *testing.T, e *Engine) string {
	t.Helper()
	_, token := tokens()
	r, err := http.NewRequestWithContext(context.Background(), "GET", e.HTTPURL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token[access.Read])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close(); http.DefaultClient.CloseIdleConnections() }()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A worker whose id has dots, as host names do, hears at once what it is to stop.
func TestControlOfAWorkerWithDots(t *testing.T) {
	e := guarded(t)
	ctx := testContext(t)
	c, _ := as(t, e, "work")
	w, err := workers.New(c.Conn(), workers.Config{ID: "host.example.org-1"})
	if err != nil {
		t.Fatal(err)
	}
	started, stopped := make(chan struct{}), make(chan struct{})
	workers.Handle(w, "email", func(ctx context.Context, _ *workers.Item[any]) (any, error) {
		close(started)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})
	runCtx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(runCtx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	submitter, _ := as(t, e, "submit")
	item, err := submitter.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	if _, _, err := submitter.Cancel(ctx, item.ID, "test"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second): // the heartbeat would tell it after 20
		t.Error("the worker has not been told")
	}
}
