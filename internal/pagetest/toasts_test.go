package pagetest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp/kb"

	"github.com/streamwright/streamwright/events"
)

// taken are the controls in sight that a message keeps from being pressed.
const taken = `[...document.querySelectorAll('a[href], button, input, select, textarea, summary')].filter((el) => {
	if (el.closest('.toasts') || !el.checkVisibility()) return false;
	const r = el.getBoundingClientRect();
	return document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2)?.closest('.toasts');
}).map((el) => el.innerText || el.getAttribute('aria-label') || el.outerHTML)`

// Messages keep no control from being pressed, wherever the page is scrolled to, and
// are closed by a key. Those of this test are of something bad, so that they stay.
func TestMessagesTakeNoControlAway(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for range 12 {
		w.await(w.submit(itemOf("charge")), events.StateDead)
	}
	for _, at := range []struct {
		v    view
		hash string
	}{{phone, "#/"}, {phone, "#/work"}, {phone, "#/work/" + s.dead}, {phone, "#/dead?items=1"}, {phone, "#/types"}, {phone, "#/workers"}, {desktop, "#/dead?items=1"}, {desktop, "#/types/email"}} {
		t.Run(fmt.Sprintf("%d %s", at.v.width, at.hash), func(t *testing.T) {
			p := open(t, at.v, w.url+at.hash)
			p.see(".connection", "live")
			p.until(`document.querySelectorAll('main button, main a').length > 1 && !document.querySelector('.loading')`)
			p.eval(module("toasts.js")+`.then((m) => {
					m.toast('The first message: it is not short, so that it needs more than one line of a phone.', { kind: 'bad' });
					m.toast('The second leads further.', { kind: 'bad', link: { href: '#/types', text: 'View' } });
				})`, nil)
			p.see(".toast", "The second")
			p.until(`scrollTo(0, 0) || true`)
			for end := false; !end; {
				p.until(`JSON.stringify(` + taken + `) === '[]'`)
				p.eval(`(async () => {
					const at = scrollY;
					scrollBy(0, 95);
					for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); // the messages move
					return scrollY === at;
				})()`, &end)
			}
			p.press(kb.Escape)
			p.gone(".toast", "The second")
			p.see(".toast", "The first")
			p.press(kb.Escape)
			p.gone(".toasts", "The first")
		})
	}
}

// below adds a button at a place of the window, which says when it has been pressed.
// The style is in a sheet: the page's policy allows no other.
func (p *tab) below(place string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(() => {
		const all = document.createElement('button');
		all.id = 'below';
		all.textContent = 'below';
		const sheet = new CSSStyleSheet();
		sheet.replaceSync('#below { position: fixed; z-index: 15; %s; }');
		document.adoptedStyleSheets.push(sheet);
		all.addEventListener('click', () => { all.textContent = 'pressed'; });
		document.body.append(all);
	})()`, place), nil)
}

// Messages that have made room for controls are seen as well when the window becomes
// lower, as that of a phone that is turned.
func TestMessagesStayInTheWindow(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, phone, w.url+"#/schedules")
	p.see(".connection", "live")
	p.below("inset: 300px 0 0 0")
	p.eval(module("toasts.js")+`.then((m) => m.toast('Above it', { kind: 'bad' }))`, nil)
	inside := `(() => { const r = document.querySelector('.toast').getBoundingClientRect(); return r.top >= 56 && r.bottom <= %s; })()`
	p.until(fmt.Sprintf(inside, "300"))
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: phone.width, Height: 360, DeviceScaleFactor: 1, Mobile: true})
	p.until(`innerHeight === 360`)
	p.until(fmt.Sprintf(inside, "innerHeight"))
}

// A control that lies below a message, since there is no better place for it, is
// pressed through it.
func TestMessagesArePressedThrough(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, phone, w.url+"#/schedules")
	p.see(".connection", "live")
	p.below("inset: 0")
	p.eval(module("toasts.js")+`.then((m) => m.toast('In the way', { kind: 'bad' }))`, nil)
	p.see(".toast", "In the way")
	var at struct{ X, Y float64 }
	p.eval(`(() => { const r = document.querySelector('.toast-text').getBoundingClientRect(); return { X: r.left + 5, Y: r.top + 5 }; })()`, &at)
	p.mouse(at.X, at.Y)
	p.see("#below", "pressed")
	p.see(".toast", "In the way")
	p.click(".toast", "Close this message")
	p.gone(".toasts", "In the way")
}
