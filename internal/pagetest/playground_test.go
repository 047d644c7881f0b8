package pagetest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/streamwright/streamwright/internal/need"
)

// playground opens a page of the documentation, and starts its playground.
func playground(t *testing.T, v view, page string) *tab {
	t.Helper()
	w := start(t)
	p := open(t, v, w.url+"docs/guides/"+page)
	var there bool
	if p.eval(`document.querySelector('section.playground') !== null`, &there); !there {
		need.Missing(t, "the engine was built without the playground: run make playground first")
	}
	p.click(".playground", "Start the playground")
	p.see(".playground .digest", "Digest")
	return p
}

// digest waits until the digest is not the one before, and returns it.
func (p *tab) digest(before string) (now string) {
	p.t.Helper()
	p.until(`document.querySelector('.playground .digest code').innerText !== ` + quote(before))
	return p.text(".playground .digest code")
}

// A reader submits, fails and lets time pass, and sees the events.
func TestThePlayground(t *testing.T) {
	t.Parallel()
	p := playground(t, desktop, "protection")
	p.see(".playground .log", `"kind":"queued"`)
	digest := p.digest("")
	p.click(".playground", "Submit")
	p.see(".playground .log", "> submit email {\"priority\":5}\n")
	p.see(".playground tbody tr:nth-child(3)", "running")
	digest = p.digest(digest)
	p.choose(".playground .codes", "logic")
	p.click(".playground", "Fail item 3")
	p.see(".playground tbody tr:nth-child(3)", "dead: not_retryable")
	p.digest(digest)
	p.click(".playground", "until something is due")
	p.see(".playground tbody tr:nth-child(1)", "2 of")
	p.see(".playground .state", "since the start; 2 of 2 slots run")
	p.fill(".playground .command", "advance backwards")
	p.press(kb.Enter)
	p.see(".playground .refused", "bad_time: ")
	p.click(".playground", "Start again")
	p.until(`document.querySelectorAll('.playground tbody tr').length === 2`)
}

// The keyboard suffices, on a narrow screen and in the dark too.
func TestThePlaygroundByKeyboard(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]view{"phone": phone, "night": night, "narrow night": {width: phone.width, height: phone.height, dark: true}} {
		t.Run(name, func(t *testing.T) {
			p := playground(t, v, "limits")
			p.until(`document.activeElement.matches('.command')`)
			p.press(strings.Split("complete 1", "")...)
			p.press(kb.Enter)
			p.see(".playground tbody tr:nth-child(1)", "completed")
			p.press(kb.Tab, kb.Tab) // over Run
			p.until(`document.activeElement.innerText === 'Start again'`)
			p.press(kb.Enter)
			p.until(`document.querySelector('.playground tbody tr').innerText.includes('running')`)
			var outside []string
			p.eval(`[...document.querySelectorAll('.playground :is(button, input, select, pre, p, form)')].filter((el) => el.getBoundingClientRect().right > innerWidth && !el.closest('table')).map((el) => el.outerHTML.slice(0, 80))`, &outside)
			if len(outside) > 0 {
				t.Errorf("beyond the screen: %q", outside)
			}
			var pale []string
			p.eval(pageColours, &pale)
			if len(pale) > 0 {
				t.Errorf("not in the page's colours: %q", pale)
			}
		})
	}
}

// pageColours lists the controls of a playground that have not the colour of the page's text.
const pageColours = `[...document.querySelectorAll('.playground :is(button, input, select)')].filter((el) => getComputedStyle(el).color !== getComputedStyle(document.body).color).map((el) => el.outerHTML.slice(0, 80))`

// No other page may compile WebAssembly, neither of the documentation nor the web page.
func TestOnlyAPlaygroundsPageMayCompile(t *testing.T) {
	t.Parallel()
	const compile = `WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).then(() => true, () => false)`
	p := playground(t, desktop, "routing")
	p.see(".playground tbody tr:nth-child(4)", "running") // of the highest priority
	var root string
	p.eval(`location.origin + '/'`, &root)
	for page, want := range map[string]bool{"docs/guides/limits": true, "docs/guides/flow": false, "docs/api/": false, "": false} {
		p := open(t, desktop, root+page)
		p.expect("Content Security Policy", "WebAssembly")
		var may bool
		if p.eval(compile, &may); may != want {
			t.Errorf("that %q may compile is %v", page, may)
		}
	}
}
