package embedded

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// expense is what the tests of approvals ask about.
type expense struct {
	Sum int `json:"sum"`
}

// asks handles expenses: it asks, gives bob a link, and completes with who has answered what.
func asks(links chan<- string, q workers.Question) workers.Handler {
	return func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Waited == nil {
			link, err := workers.Link(ctx, "ok", "bob@example.com")
			if err != nil {
				return nil, err
			}
			links <- link
			return nil, workers.Ask("ok", q).For(testTimeout)
		}
		a, ok, err := workers.AnswerOf[expense](it, "ok")
		return map[string]any{"answered": ok, "choice": a.Choice, "sum": a.Value.Sum, "by": a.By, "comment": a.Comment}, err
	}
}

// A question is answered once, by one who may, in each namespace and only there; by others it is not
// even seen. A link answers without a login.
func TestApprovalsWithUsers(t *testing.T) {
	slow(t)
	need.NoReload(t)
	t.Parallel()
	c := config.Default()
	c.NATS.Users = []config.NATSUser{
		userIn(t, "eve", "submit", "approve", "acme/submit"), userIn(t, "ada", "approve", "acme/approve"), userIn(t, "bob", "approve"), userIn(t, "carl", "approve", "acme/approve"),
		userIn(t, "works", "work", "acme/work"), userIn(t, "ops", "*/operate", "*/read"),
	}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", HTTPTokens: "carl carl-0123456789abcdefg approve"})
	ctx := testContext(t)
	client := func(user, namespace string) *streamwright.Client {
		t.Helper()
		c, err := streamwright.New(dial(t, e.srv, user), streamwright.WithNamespace(namespace), streamwright.WithDomain(e.names().ImportDomain()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	if _, err := client("ops", "default").Namespaces().Set(ctx, "acme", streamwright.NamespaceChange{}); err != nil {
		t.Fatal(err)
	}
	awaitNamespace(t, e, "acme")
	q := workers.Question{
		Title: "Pay?", Text: "**80 €** <b>now</b>", Choices: []workers.Choice{"approve", "reject", "edit"}, Proposal: expense{Sum: 80},
		Form: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer","maximum":100}}}`),
		Who:  workers.Answerers{Users: []string{"ada", "eve"}, Roles: []string{"operate"}, NotSubmitter: true},
	}
	links := make(chan string, 1)
	for _, ns := range []string{"default", "acme"} {
		of := client("works", ns)
		w, err := workers.New(of.Conn(), workers.Config{Names: of.Names()})
		if err != nil {
			t.Fatal(err)
		}
		if err := workers.HandleRaw(w, "expense", asks(links, q)); err != nil {
			t.Fatal(err)
		}
		if err := w.Start(ctx); err != nil {
			t.Fatal(err)
		}
		defer w.Stop(ctx)
	}
	eve, ada, bob := client("eve", "default"), client("ada", "default"), client("bob", "default")
	submit := func(c *streamwright.Client) string {
		t.Helper()
		sub, err := c.Submit(ctx, streamwright.Item{Type: "expense"})
		if err != nil {
			t.Fatal(err)
		}
		return sub.ID
	}
	refused := func(code streamwright.Code, err error) {
		t.Helper()
		if streamwright.CodeOf(err) != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	asked := func(c *streamwright.Client) []streamwright.Approval {
		t.Helper()
		page, err := c.Approvals(ctx, streamwright.Approvals{})
		if err != nil {
			t.Fatal(err)
		}
		return page.Approvals
	}

	id := submit(eve)
	link := <-links
	need.Eventually(t, "the question to be asked", func() bool { return len(asked(ada)) == 1 })
	if a := asked(ada)[0]; a.ID != id || !a.MayAnswer || a.SubmittedBy != "eve" || a.Text != "" {
		t.Errorf("%+v", a)
	}
	if n := len(asked(bob)) + len(asked(eve)) + len(asked(client("ada", "acme"))); n != 0 {
		t.Errorf("%d questions are shown to who may not answer them", n)
	}
	_, err := bob.Approval(ctx, id)
	refused(events.CodeNotFound, err)
	for _, c := range []*streamwright.Client{bob, eve} { // she has submitted it
		_, err = c.Answer(ctx, id, streamwright.Answer{Number: 1, Choice: "approve"})
		refused(events.CodeNotFound, err)
	}
	_, err = ada.Answer(ctx, id, streamwright.Answer{Number: 2, Choice: "edit", Value: expense{Sum: 800}})
	refused(events.CodeWrongState, err)
	_, err = eve.Signal(ctx, id, streamwright.Signal{Name: "ok"})
	refused(events.CodeWrongState, err)
	_, err = ada.Answer(ctx, id, streamwright.Answer{Choice: "edit", Value: expense{Sum: 800}})
	refused(events.CodeBadRequest, err)
	whole, err := ada.Approval(ctx, id)
	if err != nil || whole.Text == "" || !strings.Contains(string(whole.Nodes), `"strong"`) || strings.Contains(string(whole.Nodes), `"tag":"b"`) || string(whole.Proposal) != `{"sum":80}` {
		t.Errorf("%+v, %v", whole, err)
	}
	// Who claims to be another is who he is.
	done, err := ada.Answer(ctx, id, streamwright.Answer{Number: whole.Number, Choice: "edit", Value: expense{Sum: 40}, Comment: "half", By: "bob"})
	if err != nil || done.Repeat {
		t.Fatalf("%+v, %v", done, err)
	}
	if done, err = ada.Answer(ctx, id, streamwright.Answer{Number: whole.Number, Choice: "edit", Value: expense{Sum: 40}, Comment: "half"}); err != nil || !done.Repeat {
		t.Errorf("the same answer: %+v, %v", done, err)
	}
	_, err = client("ops", "default").Answer(ctx, id, streamwright.Answer{Choice: "reject"})
	if refused(events.CodeAlreadyCompleted, err); err != nil && !strings.Contains(err.Error(), "ada") {
		t.Error(err)
	}
	if it, err := eve.Wait(ctx, id); err != nil || string(it.Result) != `{"answered":true,"by":"ada","choice":"edit","comment":"half","sum":40}` {
		t.Errorf("%s, %v", it.Result, err)
	}
	acts, err := client("ops", "default").Engine().Audit(ctx, streamwright.AuditFilter{By: "ada"})
	if err != nil || len(acts.Acts) == 0 || acts.Acts[0].Kind != events.KindSignalled {
		t.Errorf("%+v, %v", acts, err)
	}

	do := func(method, path, body, login string) (int, string) {
		t.Helper()
		return overHTTP(t, ctx, method, e.HTTPURL()+path, body, login)
	}
	expect := func(what string, status, want int, text string, parts ...string) {
		t.Helper()
		if status != want {
			t.Errorf("%s: %d %s, want %d", what, status, text, want)
		}
		for _, p := range parts {
			if !strings.Contains(text, p) {
				t.Errorf("%s: %s lacks %q", what, text, p)
			}
		}
	}
	// The link to what ada has answered says so, and answers it no more.
	status, text := do(http.MethodGet, "/api/v1/tokens/"+link, "", "")
	expect("an answered link", status, http.StatusOK, text, `"by":"ada"`, `"for":"bob@example.com"`)
	status, text = do(http.MethodPost, "/api/v1/tokens/"+link, `{"result":{"choice":"reject"}}`, "")
	expect("a late link", status, http.StatusConflict, text, "already_completed")
	status, text = do(http.MethodGet, "/api/v1/approvals", "", "carl-0123456789abcdefg")
	expect("the inbox of one who may answer nothing", status, http.StatusOK, text, `"approvals":[]`)
	status, text = do(http.MethodGet, "/api/v1/approvals", "", "")
	expect("the inbox of nobody", status, http.StatusUnauthorized, text)

	// In another namespace it is answered by the link alone: only POST does it.
	evil := client("eve", "acme")
	id = submit(evil)
	link = <-links
	at := "/ns/acme/api/v1/tokens/" + link
	need.Eventually(t, "the question of acme to be asked", func() bool { return len(asked(client("ada", "acme"))) == 1 })
	for range 3 {
		status, text = do(http.MethodGet, at, "", "")
		expect("a link", status, http.StatusOK, text, `"title":"Pay?"`, `"may_answer":true`)
	}
	status, text = do(http.MethodGet, "/api/v1/tokens/"+link, "", "")
	expect("the link in another namespace", status, http.StatusNotFound, text)
	status, text = do(http.MethodPost, at, `{"result":{"choice":"edit","value":{"sum":"x"}}}`, "")
	expect("a value that does not match", status, http.StatusBadRequest, text, "sum")
	status, text = do(http.MethodPost, at, `{"result":{"choice":"edit","value":{"sum":1e9999999}}}`, "")
	expect("a number that takes for ever", status, http.StatusBadRequest, text, "out of range")
	status, text = do(http.MethodPost, at, `{"result":{"choice":"approve"}}`, "")
	expect("an answer", status, http.StatusOK, text, id)
	if it, err := client("ops", "acme").Wait(ctx, id); err != nil || string(it.Result) != `{"answered":true,"by":"bob@example.com","choice":"approve","comment":"","sum":80}` {
		t.Errorf("%s, %v", it.Result, err)
	}
}

// Where nobody logs in, who answers is who he says he is. Reminders are items of a type, until
// somebody answers.
func TestApprovalsInTheOpen(t *testing.T) {
	logins.Open(t, "nobody logs in")
	slow(t)
	t.Parallel()
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0"})
	ctx := testContext(t)
	c, err := streamwright.Connect(ctx, e.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		t.Fatal(err)
	}
	links, reminders := make(chan string, 1), make(chan workers.Reminder, 100)
	q := workers.Question{Title: "Pay?", Who: workers.Answerers{Users: []string{"ada"}, NotSubmitter: true}, Remind: workers.Reminders{Every: time.Second, Type: "remind", Params: "to ada"}}
	workers.HandleRaw(w, "expense", asks(links, q))
	workers.HandleRaw(w, "remind", func(_ context.Context, it *workers.RawItem) (any, error) {
		var r workers.Reminder
		err := json.Unmarshal(it.Raw, &r)
		reminders <- r
		return nil, err
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(ctx)
	sub, err := c.Submit(ctx, streamwright.Item{Type: "expense"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if r := <-reminders; r.ID != sub.ID || r.Nth != n+1 || r.Title != "Pay?" || string(r.Params) != `"to ada"` {
			t.Errorf("%+v", r)
		}
	}
	for _, by := range []string{"", "bob"} {
		if _, err := c.Answer(ctx, sub.ID, streamwright.Answer{Choice: "approve", By: by}); streamwright.CodeOf(err) != events.CodeForbidden {
			t.Errorf("by %q: %v", by, err)
		}
	}
	why, err := c.Why(ctx, sub.ID)
	if err != nil || len(why.Reasons) == 0 || !strings.Contains(why.Reasons[0].Message, "ada may answer") && !strings.Contains(why.Reasons[0].Message, "ada, but not") {
		t.Errorf("%+v, %v", why, err)
	}
	if _, err := c.Answer(ctx, sub.ID, streamwright.Answer{Choice: "approve", By: "ada"}); err != nil {
		t.Fatal(err)
	}
	it, err := c.Wait(ctx, sub.ID)
	if err != nil || !strings.Contains(string(it.Result), `"by":"ada"`) {
		t.Errorf("%s, %v", it.Result, err)
	}
	page, err := c.Approvals(ctx, streamwright.Approvals{})
	if err != nil || len(page.Approvals) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}
