package pagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

func TestTheKeyboardSuffices(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url)
	p.see(".connection", "live")
	p.press("?")
	p.see("dialog", "Keyboard shortcuts")
	p.see("dialog", "Go to")
	p.press("g", "w") // a dialog is open: nothing happens behind it
	p.press(kb.Escape)
	p.until(`document.querySelectorAll('dialog').length === 0`)
	if got := p.hash(); got != "" && got != "#/" {
		t.Errorf("behind the open dialog the screen has changed to %s", got)
	}
	p.goes("w", "#/work")
	p.until(`document.querySelectorAll('.work-table tbody tr').length > 5`)
	p.press("j", "j", "k", "j")
	p.until(`document.activeElement === document.querySelectorAll('a.row-link')[1]`)
	var second string
	p.eval(`document.activeElement.title`, &second)
	p.press(kb.Enter)
	p.until(`location.hash === '#/work/' + ` + quote(second))
	p.press("u")
	p.see(".work-table", "email")
	p.press("/")
	p.until(`document.activeElement.closest('.search')`)
	p.fill(".search input", strings.ToLower(s.dead)) // the browser test protocol types the / itself, too
	p.press(kb.Enter)
	p.see(".item-state", "dead")
	if got := p.hash(); got != "#/work/"+s.dead {
		t.Errorf("the search for an id leads to %s", got)
	}
	p.goes("o", "#/")
	p.see("h1", "Overview")
}

func TestEveryControlIsReachedByTab(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.seed()
	p := open(t, desktop, w.url+"#/work")
	p.see(".work-table", "invoice")
	var missed []string
	seen := map[string]bool{}
	for range 200 {
		p.press(kb.Tab)
		var at struct {
			Tag, Name string
			Outline   bool
			N         int
		}
		p.eval(`(() => {
			const el = document.activeElement;
			const style = getComputedStyle(el);
			window.tabbed ??= new Map();
			if (!window.tabbed.has(el)) window.tabbed.set(el, window.tabbed.size);
			return { Tag: el.tagName, Name: el.outerHTML.slice(0, 120), N: window.tabbed.get(el),
				Outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
		})()`, &at)
		key := fmt.Sprint(at.N)
		if at.Tag == "BODY" || seen[key] {
			break
		}
		seen[key] = true
		if !at.Outline {
			missed = append(missed, at.Name)
		}
	}
	if len(seen) < 20 {
		t.Errorf("by Tab only %d controls are reached", len(seen))
	}
	if len(missed) > 0 {
		t.Errorf("no visible focus on: %s", strings.Join(missed, "\n"))
	}
}

func TestTheThemeIsChosenAndKept(t *testing.T) {
	t.Parallel()
	w := start(t)
	background := func(p *tab) (out string) {
		p.eval(`getComputedStyle(document.documentElement).backgroundColor`, &out)
		return out
	}
	p := open(t, desktop, w.url)
	p.see("h1", "Overview")
	light := background(p)
	p.press("t")
	p.until(`document.documentElement.dataset.theme === 'dark'`)
	dark := background(p)
	if light == dark {
		t.Fatalf("light and dark have the same ground: %s", light)
	}
	p.reload()
	p.until(`document.querySelector('h1') && document.documentElement.dataset.theme === 'dark'`)
	if got := background(p); got != dark {
		t.Errorf("after a reload the ground is %s, not %s", got, dark)
	}
	p.click(".top", "Theme")
	p.until(`document.documentElement.dataset.theme === 'light'`)
	n := open(t, night, w.url)
	n.see("h1", "Overview")
	if got := background(n); got != dark {
		t.Errorf("with a dark system the ground is %s, not %s", got, dark)
	}
}

func TestLinksAndBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/work/"+s.dead)
	p.see(".item-state", "dead")
	p.click("nav", "Overview")
	p.see("h1", "Overview")
	p.eval(`history.back()`, nil)
	p.see(".item-state", "dead")
	p.eval(`location.hash = '#/no/such/screen'`, nil)
	p.see("h1", "No such screen")
	var title string
	p.eval(`location.hash = '#/work'`, nil)
	p.see("h1", "Work")
	if p.eval(`document.title`, &title); !strings.HasPrefix(title, "Work") {
		t.Errorf("the title is %q", title)
	}
}

// A dialog belongs to what it was opened over: Back, and a link in it, close it.
func TestADialogDoesNotSurviveBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	p := open(t, desktop, w.url+"#/work")
	p.see(".work-table", "invoice")
	p.click(".work-table", tail(s.dead))
	p.see(".item-state", "dead")
	p.press("p")
	p.see("dialog", "Replay this item?")
	p.eval(`history.back()`, nil)
	p.see("h1", "Work")
	p.until(`!document.querySelector('dialog')`)
	if st := w.item(s.dead).State.String(); st != "dead" {
		t.Errorf("the item is %s", st)
	}
}

func TestTheDocumentationIsLinked(t *testing.T) {
	t.Parallel()
	w := start(t)
	p := open(t, desktop, w.url)
	for _, place := range []string{"nav", "footer"} {
		var status int
		p.eval(fmt.Sprintf(`fetch(document.querySelector(%s).href).then((r) => r.status)`, quote(place+` a[href$="docs/"]`)), &status)
		if status != 200 {
			t.Errorf("the link in %s leads to status %d", place, status)
		}
	}
	p.click("nav", "Docs")
	p.until(`location.pathname === '/docs/'`)
}
