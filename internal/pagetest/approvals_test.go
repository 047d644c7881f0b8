package pagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// Tokens of people: eve submits, ada and bob may only approve, ops may do anything.
const (
	eveToken = "eve-submits-and-has-16-characters"
	adaToken = "ada-approves-and-has-16-characters"
	bobToken = "bob-approves-and-has-16-characters"
)

func withPeople(o *embedded.Options) {
	o.HTTPTokens = strings.Join([]string{"ops " + token + " submit,read,operate", "eve " + eveToken + " submit,read,approve", "ada " + adaToken + " approve", "bob " + bobToken + " read,approve"}, "\n")
}

// asking has a worker run items of a type that ask a question for a time, and end with the
// answer as their result. The links are given to those named, and arrive in the order of the
// names.
func (w *world) asking(typ string, q workers.Question, d time.Duration, links ...string) <-chan string {
	w.t.Helper()
	given := make(chan string, 16)
	w.worker("asks-"+typ, 4, map[string]workers.Handler{typ: func(ctx context.Context, it *workers.RawItem) (any, error) {
		if it.Waited == nil {
			for _, name := range links {
				token, err := workers.Link(ctx, typ, name)
				if err != nil {
					return nil, err
				}
				given <- token
			}
			return nil, workers.Ask(typ, q).For(d)
		}
		s, ok := it.Signal(typ)
		if !ok {
			return "nobody has answered", nil
		}
		return s.Payload, nil
	}})
	return given
}

// as makes a request in somebody's name, and returns the status and the body.
func (w *world) as(who, method, path, body string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	doc, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.StatusCode, string(doc)
}

// asks submits an item in somebody's name, and waits until it asks.
func (w *world) asks(who, typ, params string) (id string) {
	w.t.Helper()
	status, doc := w.as(who, http.MethodPost, "api/v1/work", fmt.Sprintf(`{"type":%q,"params":%s}`, typ, params))
	var sub struct{ ID string }
	if err := json.Unmarshal([]byte(doc), &sub); err != nil || sub.ID == "" {
		w.t.Fatalf("submit: %d %s", status, doc)
	}
	w.await(sub.ID, events.StateWaiting)
	return sub.ID
}

// answer is what an item has got.
func (w *world) answer(id string) (a events.Answer) {
	w.t.Helper()
	it := w.await(id, events.StateCompleted)
	if err := json.Unmarshal(it.Result, &a); err != nil {
		w.t.Fatalf("the item ended with %s: %v", it.Result, err)
	}
	return a
}

// signIn opens an address as somebody.
func signIn(t testing.TB, v view, address, who string) *tab {
	t.Helper()
	p := open(t, v, address)
	p.expect("401", "status 403", "(Forbidden)")
	p.see("dialog", "requires a token")
	p.fill("dialog input", who)
	p.click("dialog", "Continue")
	return p
}

var payAda = workers.Question{
	Title: "Pay 80 € to Ada?", Text: "For the *train* to [Ghent](https://example.com/ghent).\n\n| What | Sum |\n|-|-|\n| Ticket | 80 € |",
	Proposal: json.RawMessage(`{"amount":80,"to":"ada"}`),
}

// The inbox lists what waits for an answer, by type, or for whoever looks.
func TestTheInbox(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	w.asking("expense", payAda, 48*time.Hour)
	w.asking("leave", workers.Question{Title: "May Carl stay at home?", Who: events.Answerers{Users: []string{"ada"}}}, time.Hour)
	expense := w.asks(eveToken, "expense", `{"amount":80}`)
	leave := w.asks(eveToken, "leave", `{}`)

	p := signIn(t, desktop, w.url, bobToken)
	p.see(".connection", "live")
	p.goes("q", "#/approvals")
	for _, text := range []string{"Pay 80 € to Ada?", "expense", "eve", "in 1 d"} {
		p.see(`.approvals tr[data-id="`+expense+`"]`, text)
	}
	p.see(`.approvals tr[data-id="`+leave+`"]`, "Not for you")
	p.click("main .filters", "that I may answer")
	p.gone(".approvals", "Carl")
	p.see(".approvals", "Ada")
	p.click("main .filters", "that I may answer")
	p.see(".approvals", "Carl")
	p.click(`.approvals tr[data-id="`+leave+`"]`, "leave")
	p.gone(".approvals", "Ada")
	p.see(".approvals", "Carl")
	p.click(".approvals", "May Carl")
	p.see(".notice", "You may not answer this")
	p.gone("main", "Reject")
	p.press("u")
	p.see(".approvals", "Pay 80")
}

// Somebody who may do nothing but approve opens the page at the inbox, with what he may
// answer, and answers.
func TestAnApproverNeedsNoOtherRole(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	w.asking("expense", payAda, 48*time.Hour)
	w.asking("leave", workers.Question{Title: "May Carl stay at home?", Who: events.Answerers{Users: []string{"ada"}}}, time.Hour)
	w.asking("deploy", workers.Question{Title: "Deploy?", Who: events.Answerers{Users: []string{"bob"}}}, time.Hour)
	expense := w.asks(eveToken, "expense", `{"amount":80}`)
	leave := w.asks(eveToken, "leave", `{}`)
	deploy := w.asks(eveToken, "deploy", `{}`)
	p := signIn(t, desktop, w.url, adaToken)
	p.see("h1", "Approvals")
	p.see(".connection", "not live")
	p.see(".approvals", "Carl")
	p.gone(".approvals", "Deploy")
	p.click(".approvals", "Pay 80")
	p.until(`document.title.startsWith('Pay 80 € to Ada?')`)
	p.see(".markdown em", "train")
	p.see(".markdown td", "Ticket")
	p.until(`document.querySelector('.markdown a').href === 'https://example.com/ghent'`)
	p.see(".panel-proposal", "ada")
	p.see(".question", "in 1 d")
	p.fill("textarea[name=comment]", "a fair price")
	p.click(".answer-form", "Approve")
	p.see(".answered", "Your answer: approve")
	if a := w.answer(expense); a.Choice != events.ChoiceApprove || a.By != "ada" || a.Comment != "a fair price" || !sameJSON(t, a.Value, `{"amount":80,"to":"ada"}`) {
		t.Errorf("the item has got %+v", a)
	}
	p.press("u")
	p.see(".approvals", "Carl")
	p.gone(".approvals", "Pay 80")
	p.click(".approvals", "Carl")
	p.click(".answer-form", "Reject")
	p.see(".answered", "Your answer: reject")
	if a := w.answer(leave); a.Choice != events.ChoiceReject || a.By != "ada" {
		t.Errorf("the item has got %+v", a)
	}
	p.expect("404")
	p.eval("location.hash = "+quote("#/approvals/"+deploy), nil)
	p.see(".empty", "Nothing is asked")
}

// The inbox and an open question follow what happens, and a list of many has pages.
func TestTheInboxIsLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.asking("expense", payAda, time.Hour)
	p := open(t, desktop, w.url+"#/work")
	p.see("h1", "Work")
	p.goes("q", "#/approvals")
	p.see(".empty", "Nothing waits for an answer")
	id := w.asks("", "expense", `{}`)
	p.see(".approvals", "Pay 80")
	p.click(".approvals", "Pay 80")
	p.see(".answer-form", "Approve")
	if status, doc := w.as("", http.MethodPost, "api/v1/approvals/"+id, `{"number":1,"choice":"reject","by":"bob","comment":"too dear"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, doc)
	}
	p.see(".answered", "bob has answered: reject")
	p.gone("main", "Approve")
	p.press("u")
	p.see(".empty", "Nothing waits for an answer")
	for range 52 {
		w.asks("", "expense", `{}`)
	}
	p.until(`document.querySelectorAll('.approvals tbody tr').length === 50`)
	p.click(".pager", "More")
	p.until(`document.querySelectorAll('.approvals tbody tr').length === 2`)
	p.click(".pager", "First")
	p.until(`document.querySelectorAll('.approvals tbody tr').length === 50`)
}

// An item that asks leads to its question, from its page and from the list of work.
func TestAnItemLeadsToItsQuestion(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.asking("expense", payAda, time.Hour)
	id := w.asks("", "expense", `{}`)
	p := open(t, desktop, w.url+"#/work?type=expense")
	p.see("tbody", "asks: Pay 80 € to Ada?")
	p.click("tbody", id)
	p.see(".facts", "Pay 80 € to Ada?")
	p.gone(".item-head", "Signal")
	p.click(".item-head", "Answer")
	p.until(`location.hash === '#/approvals/` + id + `'`)
	p.fill("input[name=by]", "carl")
	p.click(".answer-form", "Reject")
	p.see(".answered", "Your answer: reject")
	p.click(".question .facts", id)
	p.see(".item-state", "completed")
	if a := w.answer(id); a.Choice != events.ChoiceReject || a.By != "carl" || a.Value != nil {
		t.Errorf("the item has got %+v", a)
	}
	p.eval("location.hash = "+quote("#/approvals/01ARZ3NDEKTSV4RRFFQ69G5FAV"), nil)
	p.expect("404")
	p.see(".empty", "Nothing is asked")
}

const kinds = `{"type":"object","required":["amount","paid"],"properties":{
	"amount":{"type":"integer","title":"Amount","minimum":1,"multipleOf":10,"description":"in cents"},
	"rate":{"type":"number"}, "paid":{"type":"boolean"}, "currency":{"enum":["EUR","USD"]},
	"tags":{"type":"array","items":{"enum":["travel","food"]}}, "people":{"type":"array","items":{"type":"string"}},
	"note":{"type":"string","maxLength":1000}, "day":{"type":"string","format":"date"}, "more":{"type":"object"}}}`

// A form has a field for each kind of value. What the engine refuses is shown, and what was
// typed stays; what it takes has come as it was typed.
func TestAFormIsFilledIn(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.asking("invoice", workers.Question{Title: "What does it cost?", Choices: []events.Choice{events.ChoiceApprove, events.ChoiceAnswer}, Form: json.RawMessage(kinds), Proposal: json.RawMessage(`{"amount":12345678901234567890,"rate":1.50}`)}, time.Hour)
	id := w.asks("", "invoice", `{}`)
	p := open(t, desktop, w.url+"#/approvals/"+id)
	p.until(`document.querySelector('.schema-form input[type=number]').value === '12345678901234567890'`)
	field := func(label string) string {
		return `[...document.querySelectorAll('.schema-form .field')].find((el) => el.querySelector('label, legend').innerText.startsWith('` + label + `'))`
	}
	put := func(label, value string) {
		t.Helper()
		p.eval(`((el) => { el.value = `+quote(value)+`; el.dispatchEvent(new Event('input', { bubbles: true })); })(`+field(label)+`.querySelector('input, select, textarea'))`, nil)
	}
	p.click(".answer-buttons", "Answer")
	p.see(".field-error", "Write the answer")
	put("Amount", "0")
	p.click(".answer-form", "Approve")
	p.see(".field-error", "1")
	put("Amount", "12345678901234567891")
	put("currency", `"USD"`)
	put("people", "ada\nbob\n")
	put("note", "two\nlines")
	put("day", "2030-01-02")
	put("more", `{"n": 1.0}`)
	p.click(".schema-form fieldset", "food")
	p.eval(field("paid")+`.querySelector('input').click()`, nil)
	p.expect("400 (Bad Request)", "status 400")
	p.click(".answer-form", "Approve")
	p.see(".answer-form .field-error", "amount") // no multiple of ten
	put("Amount", "12345678901234567900")
	p.click(".answer-form", "Approve")
	p.see(".answered", "Your answer: approve")
	want := `{"amount":12345678901234567900,"rate":1.50,"paid":true,"currency":"USD","tags":["food"],"people":["ada","bob"],"note":"two\nlines","day":"2030-01-02","more":{"n":1.0}}`
	var got bytes.Buffer
	if err := json.Compact(&got, w.answer(id).Value); err != nil || got.String() != want {
		t.Errorf("the item has got %s, want %s", got.String(), want)
	}
}

// A proposal is approved as it is, or with changes; not with changes that are lost.
func TestAProposalIsChanged(t *testing.T) {
	t.Parallel()
	w := start(t)
	form := `{"type":"object","properties":{"amount":{"type":"integer","title":"Amount"}}}`
	all := []events.Choice{events.ChoiceApprove, events.ChoiceEdit, events.ChoiceReject}
	w.asking("expense", workers.Question{Title: "Pay?", Choices: all, Form: json.RawMessage(form), Proposal: json.RawMessage(`{"amount":80,"to":"ada","rate":1.50}`)}, time.Hour)
	w.asking("plain", workers.Question{Title: "Pay?", Choices: all, Proposal: json.RawMessage(`[1.50]`)}, time.Hour)
	for typ, c := range map[string]struct{ selector, typed, want string }{
		"expense": {".schema-form input", "90", `{"amount":90,"rate":1.50,"to":"ada"}`},
		"plain":   {".schema-form textarea", "[2.50]", `[2.50]`},
	} {
		id := w.asks("", typ, `{}`)
		p := open(t, desktop, w.url+"#/approvals/"+id)
		p.gone(".answer-form", "Undo")
		p.click(".answer-buttons", "Approve with changes") // opens what can be changed
		p.fill(c.selector, c.typed)
		p.see(".answer-form", "You have changed the proposal")
		p.until(`[...document.querySelectorAll('.answer-buttons button')].find((b) => b.innerText === 'Approve').disabled`)
		p.click(".answer-form", "Undo")
		p.until(`![...document.querySelectorAll('.answer-buttons button')].find((b) => b.innerText === 'Approve').disabled`)
		p.fill(c.selector, c.typed)
		p.click(".answer-buttons", "Approve with changes")
		p.see(".answered", "Your answer: approve with changes")
		if a := w.answer(id); a.Choice != events.ChoiceEdit || !sameJSON(t, a.Value, c.want) {
			t.Errorf("the item has got %s %s, want %s", a.Choice, a.Value, c.want)
		}
	}
}

// sameJSON compares documents, of which numbers are compared as they are written.
func sameJSON(t testing.TB, a []byte, b string) bool {
	t.Helper()
	var docs [2]any
	for i, doc := range [][]byte{a, []byte(b)} {
		dec := json.NewDecoder(bytes.NewReader(doc))
		dec.UseNumber()
		if err := dec.Decode(&docs[i]); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
	}
	return fmt.Sprint(docs[0]) == fmt.Sprint(docs[1])
}

// Two people answer at once: one answer counts, and the other is told whose.
func TestTwoAnswerAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	w.asking("expense", payAda, time.Hour)
	id := w.asks(eveToken, "expense", `{}`)
	people := map[string]*tab{"ada": signIn(t, desktop, w.url+"#/approvals/"+id, adaToken), "bob": signIn(t, desktop, w.url+"#/approvals/"+id, bobToken)}
	press := map[string]string{"ada": "Approve", "bob": "Reject"}
	done := make(chan error, 2)
	for name, p := range people {
		p.expect("409")
		p.see(".answer-form", press[name])
	}
	for name, p := range people {
		go func() {
			done <- evaluate(p.ctx, `[...document.querySelectorAll('.answer-buttons button')].find((b) => b.innerText === `+quote(press[name])+`).click()`, nil)
		}()
	}
	for range people {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	a := w.answer(id)
	other := map[string]string{"ada": "bob", "bob": "ada"}[a.By]
	if other == "" || string(a.Choice) != strings.ToLower(press[a.By]) {
		t.Fatalf("the item has got %+v", a)
	}
	people[a.By].see(".answered", "Your answer: "+string(a.Choice))
	people[other].see(".answered", a.By+" has answered: "+string(a.Choice))
	people[other].gone("main", "Reject")
}

// Who comes too late is told who has answered what, even if the page does not know yet.
func TestALateAnswerIsRefused(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	w.asking("expense", payAda, time.Hour)
	id := w.asks(eveToken, "expense", `{}`)
	p := signIn(t, desktop, w.url+"#/approvals/"+id, adaToken) // who has no live feed
	p.expect("409")
	p.see(".answer-form", "Approve")
	if status, doc := w.as(bobToken, http.MethodPost, "api/v1/approvals/"+id, `{"number":1,"choice":"reject"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, doc)
	}
	p.click(".answer-form", "Approve")
	p.see(".notice-bad", "bob has answered")
	p.see(".answered", "bob has answered: reject")
}

// Where nobody signs in, whoever answers gives a name, which a question may ask for.
func TestANameIsGivenWhereNobodySignsIn(t *testing.T) {
	t.Parallel()
	w := start(t)
	q := payAda
	q.Who.Users = []string{"ada"}
	w.asking("expense", q, time.Hour)
	id := w.asks("", "expense", `{}`)
	p := open(t, desktop, w.url+"#/approvals/"+id)
	p.expect("403")
	p.see(".notice", "the question is for ada")
	p.fill("input[name=by]", "bob")
	p.click(".answer-form", "Approve")
	p.see(".answer-form .field-error", "the question is for ada")
	p.fill("input[name=by]", "ada")
	p.click(".answer-form", "Approve")
	p.see(".answered", "Your answer: approve")
	if a := w.answer(id); a.By != "ada" {
		t.Errorf("the item has got %+v", a)
	}
}

// The one who submitted an item may not answer a question that says so.
func TestTheSubmitterMayNotAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	q := payAda
	q.Who.NotSubmitter = true
	w.asking("expense", q, time.Hour)
	id := w.asks(eveToken, "expense", `{}`)
	p := signIn(t, desktop, w.url+"#/approvals/"+id, eveToken)
	p.see(".notice", "eve has submitted")
	p.gone("main", "Reject")
	p.see(".question", "not the one who submitted it")
	p = signIn(t, desktop, w.url+"#/approvals/"+id, bobToken)
	p.click(".answer-form", "Approve")
	p.see(".answered", "Your answer")
	if a := w.answer(id); a.By != "bob" {
		t.Errorf("the item has got %+v", a)
	}
}

// The inbox and a question have names, contrast and room on every device.
func TestApprovalsOnEveryDevice(t *testing.T) {
	t.Parallel()
	w := start(t)
	q := payAda
	q.Choices, q.Form = events.Choices[:], json.RawMessage(kinds)
	q.Who = events.Answerers{Users: []string{"somebody-with-a-long-name@a-long-host-name.example.org"}, Roles: []string{"operate"}, NotSubmitter: true}
	w.asking("an-expense-of-a-longer-name", q, time.Hour)
	w.asks("", "an-expense-of-a-longer-name", `{"a":"`+strings.Repeat("x", 200)+`"}`)
	for _, v := range []view{desktop, night, {width: 1024, height: 768}, {width: 800, height: 700}, phone} {
		t.Run(fmt.Sprint(v.width, " dark: ", v.dark), func(t *testing.T) {
			p := open(t, v, w.url+"#/approvals")
			p.until(`document.documentElement.dataset.phase === 'live'`)
			p.see(".approvals", "Pay 80")
			p.check(v)
			p.click(".approvals", "Pay 80")
			p.click(".answer-form summary", "Change the proposal")
			p.see(".schema-form", "Amount")
			p.check(v)
		})
	}
}

func TestScreensOfApprovals(t *testing.T) {
	t.Parallel()
	w := start(t, withPeople)
	folder := t.TempDir()
	if os.Getenv(updateScreens) != "" {
		folder = screenFolder
	}
	q := payAda
	q.Text = "For the train to [Ghent](https://example.com/ghent), where Ada speaks on **12 May**.\n\n| What | Sum |\n|-|-|\n| Ticket | 70.50 € |\n| Seat | 9.50 € |"
	q.Proposal = json.RawMessage(`{"amount":80.00,"to":"Ada Lovelace","cost_centre":"talks"}`)
	q.Form = json.RawMessage(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"number","title":"Amount","maximum":500,"description":"in euros"},"cost_centre":{"enum":["talks","travel"],"title":"Cost centre"},"to":{"type":"string","title":"To whom","maxLength":80}}}`)
	q.Choices = []events.Choice{events.ChoiceApprove, events.ChoiceEdit, events.ChoiceReject}
	links := w.asking("expense", q, 48*time.Hour, "grace@example.org")
	id := w.asks(eveToken, "expense", `{"trip":"Ghent"}`)
	w.asking("leave", workers.Question{Title: "May Carl stay at home on Friday?"}, 5*time.Hour)
	w.asks(token, "leave", `{}`)
	w.asking("deploy", workers.Question{Title: "Deploy version 1.4.2 to production?", Choices: []events.Choice{events.ChoiceApprove, events.ChoiceReject, events.ChoiceAnswer}}, 30*time.Minute)
	w.asks(eveToken, "deploy", `{}`)
	for _, c := range []struct {
		name, hash, who, selector, text string
		view                            view
	}{
		{"approvals", "#/approvals", bobToken, ".approvals", "Carl", view{width: 1200, height: 420}},
		{"approval", "#/approvals/" + id, bobToken, ".schema-form", "Amount", view{width: 1200, height: 980}},
		{"answer-phone", "#/answer/" + <-links, "", ".answer-form", "Approve", view{width: 360, height: 900}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p *tab
			if c.who == "" {
				p = open(t, c.view, w.url+c.hash)
			} else {
				p = signIn(t, c.view, w.url+c.hash, c.who)
				p.until(`document.documentElement.dataset.phase === 'live'`)
			}
			if c.name == "approval" {
				p.click(".answer-form summary", "Change the proposal")
			}
			p.see(c.selector, c.text)
			file := filepath.Join(folder, c.name+".png")
			p.shot(file)
			info, err := os.Stat(file)
			if err != nil || info.Size() > maxScreen || info.Size() < 5000 {
				t.Errorf("screenshot %s: %v, %d bytes", file, err, info.Size())
			}
		})
	}
}
