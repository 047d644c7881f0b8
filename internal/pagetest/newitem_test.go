package pagetest

import (
	"time"

	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// large are params with what JavaScript's numbers can't hold, and with blanks of
// their own: whatever reads and writes them anew changes them.
const large = `{ "order": 12345678901234567890, "amount": 1.50 , "to":"a<b>@example.org" }`

// sends has the page note the bodies of its requests, to be read by sent.
func (p *tab) sends() {
	p.t.Helper()
	p.eval(`(() => {
		const real = window.fetch;
		window.testSent = [];
		window.fetch = (url, init) => {
			if (init?.body !== undefined) window.testSent.push({ At: (init.method ?? 'GET') + ' ' + new URL(url).pathname, Body: init.body });
			return real(url, init);
		};
	})()`, nil)
}

// sent are the bodies of the requests to a method and path since sends.
func (p *tab) sent(at string) (bodies []string) {
	p.t.Helper()
	var all []struct{ At, Body string }
	p.eval(`window.testSent`, &all)
	for _, s := range all {
		if strings.HasPrefix(s.At, at) {
			bodies = append(bodies, s.Body)
		}
	}
	return bodies
}

// set puts a text into a field as it is, and tells the page of it.
func (p *tab) set(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, quote(selector)))
	p.eval(fmt.Sprintf(`(() => {
		const el = document.querySelector(%s);
		el.focus();
		el.value = %s;
		for (const kind of ['input', 'change']) el.dispatchEvent(new Event(kind, { bubbles: true }));
	})()`, quote(selector), quote(text)), nil)
}

// all lists the items of a type, the last first.
func (w *world) all(typ string) []streamwright.WorkItem {
	w.t.Helper()
	page, err := w.client.List(w.ctx, streamwright.Filter{Type: typ})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Items
}

func TestAnItemIsSubmitted(t *testing.T) {
	t.Parallel()
	w := start(t)
	last := w.submit(streamwright.Item{Type: "invoice", Params: json.RawMessage(`{"number":12345678901234567890,"eur":1.50}`)})
	p := open(t, desktop, w.url+"#/types/invoice")
	p.see(".tile", "Queued")
	p.click(".screen-head", "New item")
	p.see("dialog .params-from", tail(last))
	p.until(`document.querySelector('dialog textarea[name=params]').value === ` + quote("{\n  \"number\": 12345678901234567890,\n  \"eur\": 1.50\n}"))
	var types []string
	p.eval(`[...document.querySelectorAll('dialog datalist option')].map((o) => o.value)`, &types)
	if len(types) != 1 || types[0] != "invoice" {
		t.Errorf("the types that are offered are %q", types)
	}

	// What is no JSON is not sent, and where it is wrong is said.
	p.set("dialog textarea[name=params]", "{\n  \"number\": 1,\n  eur: 2\n}")
	p.see("dialog .field-error", "line 3, column 3")
	p.sends()
	p.click("dialog .dialog-buttons", "Submit")
	p.until(`document.activeElement.name === 'params'`)
	p.set("dialog textarea[name=params]", `{"number": nine}`)
	p.see("dialog .field-error", "line 1, column 12")

	p.set("dialog textarea[name=params]", large)
	p.click("dialog summary", "Options")
	p.choose("dialog select[name=priority]", "8")
	p.set("dialog input[name=timeout_ms]", "soon")
	p.set("dialog textarea[name=labels]", "env=prod\nteam=billing")
	p.set("dialog input[name=tenant]", "acme")
	p.set("dialog input[name=max_attempts]", "7")
	p.choose("dialog select[name=when]", "delay")
	p.set("dialog input[name=delay]", "2h")
	p.click("dialog .dialog-buttons", "Submit")
	p.see("dialog .field-error", "is not a duration")
	p.until(`document.activeElement.name === 'timeout_ms'`)
	if sent := p.sent("POST /api/v1/work"); len(sent) > 0 {
		t.Fatalf("what could not be read was sent: %q", sent)
	}

	// Pressed twice it is submitted once; the engine's refusal stands at its field.
	p.expect("status 400", "(Bad Request)")
	p.set("dialog input[name=timeout_ms]", "90s")
	p.set("dialog input[name=max_attempts]", "5000")
	p.click("dialog .dialog-buttons", "Submit")
	p.until(`document.activeElement.name === 'max_attempts' && document.activeElement.closest('.field').querySelector('.field-error').innerText.includes('1000')`)
	p.set("dialog input[name=max_attempts]", "7")
	p.eval(`(() => { const b = document.querySelector('dialog button[type=submit]'); b.click(); b.click(); })()`, nil)
	p.said("Submitted:")
	p.gone("dialog", "New item")
	sent := p.sent("POST /api/v1/work")
	if len(sent) != 2 || !strings.HasSuffix(sent[1], `"params":`+large+`}`) {
		t.Errorf("sent was %q", sent)
	}
	items := w.all("invoice")
	if len(items) != 2 {
		t.Fatalf("%d items", len(items))
	}
	it := w.item(items[0].ID)
	if it.Priority != 8 || it.Timeout.Duration != 90*time.Second || it.Tenant != "acme" || it.Labels["team"] != "billing" || it.MaxAttempts != 7 || it.AvailableAt.IsZero() {
		t.Errorf("it is %+v", it)
	}
	if !strings.Contains(string(it.Params), "12345678901234567890") || !strings.Contains(string(it.Params), "1.50") {
		t.Errorf("its params are %s", it.Params)
	}
	p.click(".toast", "View")
	p.until(`location.hash === '#/work/' + ` + quote(it.ID))
}

// A reply that is lost, or a dedup key that is taken, makes no second item.
func TestAnItemIsSubmittedOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("invoice"))
	p := open(t, desktop, w.url+"#/work?type=invoice")
	p.see(".work-table", "invoice")
	p.click(".screen-head", "New item")
	p.see("dialog .params-from", "had no params")
	p.set("dialog textarea[name=params]", `{"n":1}`)
	p.sends()
	p.eval(`(() => { // the engine takes it, and the reply is lost
		const real = window.fetch;
		window.fetch = async (...args) => {
			const res = await real(...args);
			if (args[1]?.method !== 'POST') return res;
			window.fetch = real;
			throw new TypeError('lost');
		};
	})()`, nil)
	p.click("dialog .dialog-buttons", "Submit")
	p.see("dialog .dialog-error", "does not answer")
	p.click("dialog .dialog-buttons", "Submit")
	p.said("Already submitted")
	if items := w.all("invoice"); len(items) != 2 {
		t.Errorf("%d items", len(items))
	}

	key := w.submit(streamwright.Item{Type: "invoice", DedupKey: "order-17"})
	p.click(".screen-head", "New item")
	p.click("dialog summary", "Options")
	p.set("dialog textarea[name=params]", `{"n":2}`)
	p.set("dialog input[name=dedup_key]", "order-17")
	p.click("dialog .dialog-buttons", "Submit")
	p.said("A duplicate")
	p.said(tail(key))
}

// A type that is not there yet is made only where that is confirmed.
func TestANewTypeIsConfirmed(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(streamwright.Item{Type: "invoice", Params: map[string]int{"n": 1}})
	p := open(t, phone, w.url+"#/work")
	p.see(".work-table", "invoice")
	p.click(".screen-head", "New item")
	p.sends()
	p.fill("dialog input[name=type]", "invoces")
	p.see("dialog .new-type", "Create the new type “invoces”")
	p.set("dialog textarea[name=params]", `{"n":2}`)
	p.eval(`(() => { const b = document.querySelector('dialog button[type=submit]'); b.click(); b.click(); })()`, nil)
	p.see("dialog .field-error", "correct the name or tick")
	p.press(kb.Escape)
	p.gone("dialog", "New item")
	if sent := p.sent("POST /api/v1/work"); len(sent) > 0 {
		t.Fatalf("an unknown type was sent: %q", sent)
	}
	p.click(".screen-head", "New item")
	p.fill("dialog input[name=type]", "invoice")
	p.see("dialog .params-from", "changed last")
	p.set("dialog textarea[name=params]", "")
	p.fill("dialog input[name=type]", "receipt")
	p.click("dialog .new-type", "Create the new type")
	p.click("dialog .dialog-buttons", "Submit")
	p.said("Submitted:")
	if items := w.all("receipt"); len(items) != 1 {
		t.Errorf("%d items of the new type", len(items))
	}
	p.click(".screen-head", "New item") // names off the pattern are the engine's to refuse
	p.expect("status 400", "(Bad Request)")
	p.set("dialog textarea[name=params]", "1")
	p.fill("dialog input[name=type]", "No Type")
	p.click("dialog .new-type", "Create the new type")
	p.click("dialog .dialog-buttons", "Submit")
	p.see("dialog .field-error", "bad_type")
}

// The patch of a replay is sent as it is typed: numbers keep their digits.
func TestAPatchIsSentAsItStands(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	p := open(t, desktop, w.url+"#/dead?items=1&type=charge")
	p.see(".dead-items", "card_declined")
	p.press("a")
	p.see("dialog .bulk-count", fmt.Sprintf("%d items", declined))
	p.sends()
	p.set("dialog input[name=patch]", `{"card": new}`)
	p.see("dialog .field-error", "line 1, column 10")
	p.click("dialog .dialog-buttons", "Replay")
	p.set("dialog input[name=patch]", `[1]`)
	p.click("dialog .dialog-buttons", "Replay")
	p.see("dialog .field-error", "must be an object")
	if sent := p.sent("POST /api/v1/dead/replay"); len(sent) > 0 {
		t.Fatalf("what is no patch was sent: %q", sent)
	}
	const patch = `{ "card": "fixed", "ref": 12345678901234567890 ,"amount":1.50}`
	p.set("dialog input[name=patch]", patch)
	p.click("dialog .dialog-buttons", fmt.Sprintf("Replay %d items", declined))
	p.said(fmt.Sprintf("%d items replayed", declined))
	if sent := p.sent("POST /api/v1/dead/replay"); len(sent) != 1 || !strings.HasSuffix(sent[0], `"patch":`+patch+`}`) {
		t.Errorf("sent was %q", sent)
	}
	for i, id := range s.declined {
		it := w.await(id, events.StateCompleted)
		if want := fmt.Sprintf(`"order":%d`, 100+i); !strings.Contains(string(it.Params), "12345678901234567890") || !strings.Contains(string(it.Params), want) {
			t.Errorf("the params are %s: want %s in them", it.Params, want)
		}
	}
}

// A document that is no JSON is faulty at a place, and one that is JSON keeps each of its parts.
func TestFaultsHaveAPlace(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url+"#/work")
	p.see("h1", "Work")
	for doc, at := range map[string]int{
		``: 0, `{`: 1, `{"a":1`: 6, `{"a":1,}`: 7, `[1,]`: 3, `[1 2]`: 3, `{a:1}`: 1, `{"a" 1}`: 5, `{"a":x}`: 5, `{"a":1} 2`: 8, `[1}`: 2, `01`: 0, `{"a":"b`: 5, "[\"\t\"]": 1, `tru`: 0, `[,1]`: 1,
	} {
		var got int
		if p.eval(fmt.Sprintf(`%s.then((m) => m.faultAt(%s))`, module("jsontext.js"), quote(doc)), &got); got != at {
			t.Errorf("%s is wrong at %d, want %d", doc, got, at)
		}
	}
	for doc, want := range map[string]string{
		`{"a":12345678901234567890,"b":[],"c":{"d":[1,"}"]}}`: "{\n  \"a\": 12345678901234567890,\n  \"b\": [],\n  \"c\": {\n    \"d\": [\n      1,\n      \"}\"\n    ]\n  }\n}",
		`1.50`: `1.50`,
	} {
		var got string
		if p.eval(fmt.Sprintf(`%s.then((m) => m.indent(%s))`, module("jsontext.js"), quote(doc)), &got); got != want {
			t.Errorf("%s is set as %s", doc, got)
		}
		if p.eval(fmt.Sprintf(`%s.then((m) => m.memberOf('{"params2":1,"o":{"params":2},"params" : ' + %s + ' ,"z":3}', 'params'))`, module("jsontext.js"), quote(doc)), &got); got != doc {
			t.Errorf("the member is %s, want %s", got, doc)
		}
	}
}

// Who may only look is told so, and who may submit may not set schedules.
func TestRolesOfTheForms(t *testing.T) {
	t.Parallel()
	const reader, submitter = "a-reader-of-16-characters-and-more", "a-submitter-of-16-characters-and-more"
	w := start(t, func(o *embedded.Options) {
		o.HTTPTokens = "ops " + token + " submit,read,operate\nann " + reader + " read\nbob " + submitter + " read,submit"
	})
	w.submit(streamwright.Item{Type: "email", Params: map[string]int{"n": 1}})
	for who, submits := range map[string]bool{reader: false, submitter: true} {
		p := open(t, desktop, w.url+"#/types/email")
		p.expect("401", "status 403", "(Forbidden)")
		p.see("dialog", "requires a token")
		p.fill("dialog input", who)
		p.click("dialog", "Continue")
		p.see(".connection", "live")
		p.click(".screen-head", "New item")
		p.see("dialog .params-from", "changed last")
		p.click("dialog .dialog-buttons", "Submit")
		if submits {
			p.said("Submitted:")
		} else {
			p.see("dialog .dialog-error", "submit")
			p.click("dialog .dialog-buttons", "Cancel")
		}
		p.eval(`location.hash = '#/schedules'`, nil)
		p.click(".screen-head", "New schedule")
		p.set("dialog input[name=name]", "nightly")
		p.fill("dialog input[name=type]", "email")
		p.see("dialog .params-from", "changed last")
		p.set("dialog input[name=cron]", "0 3 * * *")
		p.until(`document.querySelectorAll('dialog .ticks li').length === 5`)
		p.click("dialog .dialog-buttons", "Create")
		p.see("dialog .dialog-error", "operate")
	}
	if n := len(w.all("email")); n != 2 {
		t.Errorf("%d items", n)
	}
}

// A 0 is neither sent nor ignored: it is refused at its field.
func TestZeroIsRefusedAtItsField(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("email"))
	p := open(t, desktop, w.url+"#/work")
	p.see(".work-table", "email")
	p.press("n")
	p.set(`dialog input[name="type"]`, "email")
	p.set("dialog textarea[name=params]", "{}")
	p.eval(`document.querySelector('dialog details').open = true`, nil)
	p.set(`dialog input[name="max_attempts"]`, "0")
	p.set(`dialog input[name="timeout_ms"]`, "0s")
	p.click("dialog .dialog-buttons", "Submit")
	p.until(`[...document.querySelectorAll('dialog .field-error')].filter((el) => el.checkVisibility() && el.innerText.includes('more than 0')).length === 2`)
	p.until(`document.activeElement.name === 'max_attempts'`)
	if n := len(w.all("email")); n != 1 {
		t.Errorf("%d items", n)
	}
	p.set(`dialog input[name="max_attempts"]`, "2")
	p.set(`dialog input[name="timeout_ms"]`, "")
	p.click("dialog .dialog-buttons", "Submit")
	p.said("Submitted")

	p.eval(`location.hash = '#/types/email'`, nil)
	p.until(`document.querySelector('[name="poison_after"]')`)
	p.expect("status 400", "400 (Bad Request)") // the engine refuses the other
	p.set(`input[name="poison_after"]`, "0")
	p.set(`input[name="max_attempts"]`, "0")
	p.click(".settings-end", "Save")
	p.see(`[data-setting="poison_after"] .field-error`, "more than 0")
	p.set(`input[name="poison_after"]`, "")
	p.click(".settings-end", "Save")
	p.see(`[data-setting="max_attempts"] .field-error`, "1 to")
}
