package pagetest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// A link shows its question to whoever has it, and is answered once. What looks at links, as
// mail programs do, answers nothing.
func TestALinkIsAnswered(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]view{"phone": phone, "dark": night} {
		t.Run(name, func(t *testing.T) {
			w := start(t, withPeople)
			token := w.asking("expense", payAda, time.Hour, "ada@example.org")
			id := w.asks(eveToken, "expense", `{"secret":1}`)
			link := "#/answer/" + <-token
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				for _, path := range []string{"", link, "api/v1/tokens/" + link[len("#/answer/"):]} {
					for _, who := range []string{"", "somebody-whose-token-is-old"} {
						if status, doc := w.as(who, method, path, ""); status != http.StatusOK {
							t.Errorf("%s %s as %q: %d %s", method, path, who, status, doc)
						}
					}
				}
			}
			p := open(t, v, w.url+link)
			p.see("h1", "Pay 80 € to Ada?")
			p.until(`document.title.startsWith('Pay 80 € to Ada?')`)
			p.see(".markdown td", "Ticket")
			p.see(".panel-proposal", "80")
			p.see(".facts", "ada@example.org, by this link")
			p.gone("main", "secret")
			p.until(`!document.querySelector('nav, header.top, dialog')`)
			if it := w.item(id); it.State != events.StateWaiting {
				t.Fatalf("the item is %s", it.State)
			}
			p.check(v)
			p.fill("textarea[name=comment]", "good")
			p.click(".answer-form", "Approve")
			p.see(".answered", "Your answer: approve")
			p.check(v)
			if a := w.answer(id); a.Choice != events.ChoiceApprove || a.By != "ada@example.org" || a.Comment != "good" {
				t.Errorf("the item has got %+v", a)
			}
			p.reload()
			p.see(".answered", "Your answer: approve")
		})
	}
}

// check looks for what is unnamed, pale, cut or too wide.
func (p *tab) check(v view) {
	p.t.Helper()
	checks := map[string]string{"names": unnamed, "contrast": pale, "cut": cutTexts, "too wide": wide}
	if v == phone {
		checks["too small to touch"] = short
	}
	for what, script := range checks {
		var found []string
		if p.eval(script, &found); len(found) > 0 {
			p.t.Errorf("%s: %q", what, found)
		}
	}
}

// Two have a link to one question: who comes second is told who was first.
func TestTwoLinksToOneQuestion(t *testing.T) {
	t.Parallel()
	w := start(t)
	links := w.asking("expense", payAda, time.Hour, "ada", "bob")
	id := w.asks("", "expense", `{}`)
	first, second := open(t, desktop, w.url+"#/answer/"+<-links), open(t, phone, w.url+"#/answer/"+<-links)
	second.expect("409")
	first.see(".answer-form", "Approve")
	second.see(".answer-form", "Approve")
	first.click(".answer-form", "Reject")
	first.see(".answered", "Your answer: reject")
	second.fill("textarea[name=comment]", "of course")
	second.click(".answer-form", "Approve")
	second.see(".notice-bad", "ada has answered")
	second.see(".answered", "ada has answered: reject")
	if a := w.answer(id); a.Choice != events.ChoiceReject || a.By != "ada" {
		t.Errorf("the item has got %+v", a)
	}
}

// A link whose question is over says so, and one that is none, too.
func TestLinksThatLeadNowhere(t *testing.T) {
	t.Parallel()
	w := start(t)
	links := w.asking("expense", payAda, time.Hour, "ada")
	id := w.asks("", "expense", `{}`)
	p := open(t, phone, w.url+"#/answer/"+<-links)
	p.expect("404", "409")
	p.see(".answer-form", "Approve")
	if _, _, err := w.client.Cancel(w.ctx, id, "not needed"); err != nil {
		t.Fatal(err)
	}
	p.click(".answer-form", "Approve")
	p.see(".notice-bad", "Your answer was not taken")
	p.check(phone)
	for _, bad := range []string{"#/answer/nonsense", "#/answer/", "#/answer/%", "#/answer/a/b"} {
		p.follow(bad)
		p.see(".empty", "This link leads to no question")
	}
	p.check(phone)

	over := w.asking("short", payAda, 2*time.Second, "ada")
	late := w.asks("", "short", `{}`)
	link := <-over
	w.await(late, events.StateCompleted)
	p.follow("#/answer/" + link)
	p.see(".notice", "The question is over")
}

// follow goes to another link, for which the page is loaded anew.
func (p *tab) follow(hash string) {
	p.t.Helper()
	p.eval("window.testOld = true; location.hash = "+quote(hash), nil)
	p.until("!window.testOld")
}

// While the engine can't be reached, what was typed stays; then it is sent, once.
func TestALinkOutlivesABrokenConnection(t *testing.T) {
	t.Parallel()
	w := start(t)
	links := w.asking("expense", payAda, time.Hour, "ada")
	id := w.asks("", "expense", `{}`)
	way := newWire(t, w.engine.HTTP())
	link := "#/answer/" + <-links
	p := open(t, phone, "http://"+way.addr+"/"+link)
	p.expect(provoked...)
	p.fill("textarea[name=comment]", "typed with care")
	way.cut()
	p.click(".answer-form", "Approve")
	p.see(".answer-form .field-error", "does not answer")
	way.mend()
	p.click(".answer-form", "Approve")
	p.see(".answered", "Your answer: approve")
	if a := w.answer(id); a.Comment != "typed with care" {
		t.Errorf("the item has got %+v", a)
	}
}

// A namespace has its own links.
func TestALinkOfANamespace(t *testing.T) {
	t.Parallel()
	def, acme := start(t), start(t)
	links := acme.asking("expense", payAda, time.Hour, "ada")
	id := acme.asks("", "expense", `{}`)
	link := "#/answer/" + <-links
	at := host(t, def, acme)
	p := open(t, phone, at+"ns/acme/"+link)
	p.see("h1", "Pay 80 € to Ada?")
	p.until(`document.title.includes('acme')`)
	p.click(".answer-form", "Reject")
	p.see(".answered", "Your answer: reject")
	if a := acme.answer(id); a.By != "ada" {
		t.Errorf("the item has got %+v", a)
	}
	p = open(t, phone, at+link)
	p.expect("404")
	p.see(".empty", "This link leads to no question")
}

// Who tries many links is told to wait.
func TestTooManyLinks(t *testing.T) {
	t.Parallel()
	w := start(t)
	enough, stop := context.WithCancel(w.ctx)
	var tries sync.WaitGroup
	for range 8 {
		tries.Go(func() {
			for enough.Err() == nil {
				if res, err := http.Get(w.url + "api/v1/tokens/nonsense"); err == nil {
					res.Body.Close()
				}
			}
		})
	}
	t.Cleanup(func() { stop(); tries.Wait() })
	p := open(t, phone, w.url+"#/answer/nonsense")
	p.expect("429", "404") // a few are still answered
	for end := time.Now().Add(patience); p.becomes(`document.querySelector('.empty').innerText.includes('Too many requests')`, 3*time.Second) != nil; p.reload() {
		if time.Now().After(end) {
			t.Fatal(p.describe())
		}
	}
	p.check(phone)
}
