package pagetest

import (
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// aim is a script that finds the button or link in what a selector finds that shows
// a text (or has it as its name), and is where it can be clicked: {X, Y}, or null
// while there is none. It notes in window.testMissed whether a click comes to it.
const aim = `(() => {
	const el = [...document.querySelectorAll(%s)].flatMap((el) => [el, ...el.querySelectorAll('a, button, summary, label')])
		.find((el) => el.matches('a, button, summary, label, input') && el.checkVisibility() && !el.disabled && ((el.innerText ?? '').includes(%s) || (el.getAttribute('aria-label') ?? '').includes(%s)));
	if (!el) return null;
	el.scrollIntoView({ block: 'center', inline: 'nearest', behavior: 'instant' });
	const r = el.getClientRects()[0];
	const [X, Y] = [r.left + r.width / 2, r.top + r.height / 2];
	if (!el.contains(document.elementFromPoint(X, Y))) return null;
	window.testMissed = true;
	el.addEventListener('click', () => { window.testMissed = false; }, { once: true, capture: true });
	return { X, Y };
})()`

// click waits for a button or link that shows a text (or has it as its name), in
// what selector finds, and clicks it with the mouse. A live page may replace the
// element, or move it from under the mouse, between the two: a click that has not
// come to its element is made again. The browser answers a click when the page has
// handled it, so none is made twice.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		var at *struct{ X, Y float64 }
		p.eval(fmt.Sprintf(aim, quote(selector), quote(text), quote(text)), &at)
		if at != nil {
			p.mouse(at.X, at.Y)
			var missed bool // not in a page that the click has led to
			if p.eval(`Boolean(window.testMissed)`, &missed); !missed {
				return
			}
		}
		if time.Now().After(end) {
			p.t.Fatalf("no click has come to %q in %q; %s", text, selector, p.describe())
		}
		p.eval(`new Promise((done) => setTimeout(done, 15))`, nil)
	}
}

// fill puts a text into a field, as if it had been typed, and leaves it.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%s)?.checkVisibility()`, quote(selector)))
	p.eval(fmt.Sprintf(`(() => { const el = document.querySelector(%s); el.focus(); el.select?.(); })()`, quote(selector)), nil)
	p.do(chromedp.KeyEvent(kb.Delete))
	if text != "" {
		p.do(chromedp.KeyEvent(text))
	}
	p.eval(fmt.Sprintf(`document.querySelector(%s).dispatchEvent(new Event('change', { bubbles: true }))`, quote(selector)), nil)
}

// choose selects a value of a list.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelector(%s).options].some((o) => o.value === %s)`, quote(selector), quote(value)))
	p.eval(fmt.Sprintf(`(() => { const el = document.querySelector(%s); el.value = %s; el.dispatchEvent(new Event('change', { bubbles: true })); })()`, quote(selector), quote(value)), nil)
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.do(chromedp.KeyEvent(k))
	}
}

// mouse clicks at a point of what is seen.
func (p *tab) mouse(x, y float64) {
	p.t.Helper()
	p.do(chromedp.MouseClickXY(x, y))
}

// text is what the element that selector finds shows.
func (p *tab) text(selector string) (text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`document.querySelector(%s)?.innerText ?? ''`, quote(selector)), &text)
	return text
}

// hash is the address within the page.
func (p *tab) hash() (hash string) {
	p.t.Helper()
	p.eval(`location.hash`, &hash)
	return hash
}
