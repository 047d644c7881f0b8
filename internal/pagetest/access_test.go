package pagetest

import (
	"fmt"
	"strings"
	"testing"
)

// shown are the screens that are checked, by what they are to show.
func (s seeded) shown() map[string][2]string {
	return map[string][2]string{
		"#/":                       {".need", "No worker for archive"},
		"#/work":                   {".work-table", "invoice"},
		"#/work/" + s.running:      {".log-lines", "two-pass"},
		"#/work/" + s.dead:         {".error-text", "declined"},
		"#/work/" + s.parent:       {".tree", "transcode"},
		"#/work?q=no+such+thing+x": {".empty", "No items match"},
		"#/approvals":              {".empty", "Nothing waits for an answer"},
	}
}

// unnamed lists the controls that have no accessible name, and ids that are used
// twice.
const unnamed = `(() => {
	const name = (el) => (el.getAttribute('aria-label') || [...(el.labels ?? [])].map((l) => l.innerText).join('') || (el.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.innerText ?? '').join('') || el.innerText || el.querySelector?.('img')?.alt || '').trim();
	const out = [...document.querySelectorAll('a[href], button, input:not([type=submit]), select, textarea, summary, dialog, [role=img], [role=region], [tabindex="0"], [role=meter], section, nav')].filter((el) => el.checkVisibility() && !name(el)).map((el) => 'no name: ' + el.outerHTML.slice(0, 140));
	const ids = [...document.querySelectorAll('[id]')].map((el) => el.id);
	out.push(...ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => 'twice: ' + id));
	if (document.querySelectorAll('h1').length !== 1) out.push('there must be one h1');
	if (document.querySelectorAll('main').length !== 1) out.push('there must be one main');
	return out;
})()`

// pale lists the texts whose contrast with what is behind them is below AA (4.5
// to 1; 3 to 1 for large ones).
const pale = `(() => {
	const ctx = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
	const rgba = (c) => { ctx.clearRect(0, 0, 1, 1); ctx.fillStyle = c; ctx.fillRect(0, 0, 1, 1); const d = ctx.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
	const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
	const ground = (el) => { const stack = []; for (let e = el; e; e = e.parentElement) stack.push(rgba(getComputedStyle(e).backgroundColor)); return stack.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]); };
	const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const out = [];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const el = n.parentElement;
		if (!n.data.trim() || !el.checkVisibility({ opacityProperty: true }) || el.closest('svg, .sr, noscript, option, button:disabled, .skip')) continue;
		const style = getComputedStyle(el);
		const back = ground(el);
		const front = over(rgba(style.color), back);
		const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
		if (ratio < (large ? 3 : 4.5)) out.push(ratio.toFixed(2) + ' ' + el.tagName + '.' + el.className + ': ' + n.data.trim().slice(0, 40));
	}
	return [...new Set(out)];
})()`

func TestNamesAndContrast(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for hash, want := range s.shown() {
		for name, v := range map[string]view{"light": desktop, "dark": night} {
			t.Run(name+" "+hash, func(t *testing.T) {
				p := open(t, v, w.url+hash)
				p.see(".connection", "live")
				p.see(want[0], want[1])
				for what, script := range map[string]string{"names": unnamed, "contrast": pale} {
					var found []string
					if p.eval(script, &found); len(found) > 0 {
						t.Errorf("%s: %s", what, strings.Join(found, "\n"))
					}
				}
			})
		}
	}
}

func TestThePhoneScrollsOneWay(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for hash, want := range s.shown() {
		t.Run(hash, func(t *testing.T) {
			p := open(t, phone, w.url+hash)
			p.see(want[0], want[1])
			var wide []string
			p.eval(`(() => {
				const root = document.scrollingElement;
				if (root.scrollWidth <= innerWidth) return [];
				return [...document.querySelectorAll('main *')].filter((el) => el.getBoundingClientRect().right > innerWidth + 1 && !el.closest('.scroll-x, svg')).slice(0, 8).map((el) => el.tagName + '.' + el.className + ' ' + el.getBoundingClientRect().right).concat('the page is ' + root.scrollWidth + ' wide');
			})()`, &wide)
			if len(wide) > 0 {
				t.Errorf("it is wider than a phone: %s", strings.Join(wide, "\n"))
			}
			var small []string
			p.eval(`[...document.querySelectorAll('nav a, .button, .icon-button, .chip')].filter((el) => el.checkVisibility() && el.getBoundingClientRect().height < 24).map((el) => el.outerHTML.slice(0, 100))`, &small)
			if len(small) > 0 {
				t.Errorf("too small to touch: %s", strings.Join(small, "\n"))
			}
		})
	}
}

// While figures change, and when the charts have their first sample, nothing moves.
// What needs attention may: so nothing here comes to need it, or ceases to.
func TestNothingJumps(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("archive"))
	p := open(t, desktop, w.url+"#/")
	p.see(".need", "No worker for archive")
	p.eval(`Object.assign(window, { shifts: 0, shifted: [] }); new PerformanceObserver((list) => {
		for (const e of list.getEntries()) {
			window.shifts += e.value;
			window.shifted.push(...e.sources.map((s) => s.node?.className + ': ' + s.node?.textContent?.slice(0, 40)));
		}
	}).observe({ type: 'layout-shift', buffered: false })`, nil)
	for range 3 {
		before := p.text(`[data-tile="queued"] .tile-value`)
		w.submit(itemOf("archive"))
		p.until(fmt.Sprintf(`document.querySelector('[data-tile="queued"] .tile-value').innerText !== %s`, quote(before)))
	}
	p.gone(".chart-none", "The first sample")
	var got struct {
		Shifts  float64
		Shifted []string
	}
	if p.eval(`({ Shifts: window.shifts, Shifted: window.shifted })`, &got); got.Shifts > 0.02 {
		t.Errorf("the layout shifts by %.3f: %q", got.Shifts, got.Shifted)
	}
}
