package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/streamwright/streamwright/internal/need"
)

// patience is how long a page, or the engine, may take to show what a test waits for.
// It is longer than the engine's fallback sweep (a minute), and only a test that fails
// waits for so long.
const patience = 2 * time.Minute

// chromium is the one browser of all tests, started by the first that needs it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// browser is the running browser.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := need.Program(t, "chromium", "chromium-browser", "google-chrome")
	chromium.once.Do(func() {
		dir, err := os.MkdirTemp("", "pagetest-")
		if err != nil {
			chromium.err = err
			return
		}
		alloc, cancelAlloc := chromedp.NewExecAllocator(context.Background(),
			chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
			chromedp.Flag("disable-sync", true), chromedp.Flag("disable-extensions", true), chromedp.Flag("hide-scrollbars", true),
			chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
		ctx, cancel := chromedp.NewContext(alloc, chromedp.WithErrorf(func(string, ...any) {}))
		chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
		chromium.stop = func() {
			cancel()
			cancelAlloc()
			_ = os.RemoveAll(dir) // what is left of it is in the machine's temporary folder
		}
	})
	if chromium.err != nil {
		t.Fatalf("start %s: %v", path, chromium.err)
	}
	return chromium.ctx
}

// view is how a page is looked at. The zero view is a desktop in light colours.
type view struct {
	width, height int64
	dark          bool
}

var (
	desktop = view{width: 1360, height: 900}
	night   = view{width: 1360, height: 900, dark: true}
	phone   = view{width: 360, height: 740}
)

// tab is a page in the browser, with storage of its own. It belongs to one test.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected []string
}

// kept are the tabs that no test has now, each in a browser context of its own, which has a
// storage of its own: a new tab takes half a second of a processor to make, and another to
// load the page without a cache.
var kept struct {
	mu   sync.Mutex
	tabs []target.ID
}

// newTab returns a tab that no other test has, a kept one if there is one.
func newTab(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	parent := browser(t)
	tab := func() (id target.ID) {
		kept.mu.Lock()
		defer kept.mu.Unlock()
		if last := len(kept.tabs) - 1; last >= 0 {
			id, kept.tabs = kept.tabs[last], kept.tabs[:last]
		}
		return id
	}()
	if tab == "" {
		ctx, _ := chromedp.NewContext(parent, chromedp.WithNewBrowserContext(), chromedp.WithDetachOnCancel()) // ends with the browser
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
		tab = chromedp.FromContext(ctx).Target.TargetID
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithTargetID(tab), chromedp.WithDetachOnCancel())
	return ctx, func() {
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
			t.Errorf("leave the page: %v", err)
		}
		cancel()
		kept.mu.Lock()
		defer kept.mu.Unlock()
		kept.tabs = append(kept.tabs, tab)
	}
}

// forgetting empties the storage that an earlier page of the same engine has left.
const forgetting = `if (location.protocol !== 'about:') { localStorage.clear(); sessionStorage.clear(); }`

// open opens an address, and ends the test if the page reports any problem that
// it does not expect.
func open(t testing.TB, v view, address string) *tab {
	t.Helper()
	if v.width == 0 {
		v.width, v.height = desktop.width, desktop.height
	}
	ctx, cancel := newTab(t)
	// Each page asks for the namespaces, which not every engine or token lets it know.
	p := &tab{t: t, ctx: ctx, expected: []string{"/api/v1/namespaces"}}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	t.Cleanup(func() {
		for _, problem := range p.unexpected() {
			t.Errorf("the browser reports: %s", problem)
		}
		cancel()
	})
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.width, Height: v.height, DeviceScaleFactor: 1, Mobile: v.width < 600})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	// As if its window were in front, beside those of other tests.
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hearing})
	once := call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: forgetting}).Identifier
	p.do(chromedp.Navigate(address))
	call(p, page.RemoveScriptToEvaluateOnNewDocument, page.RemoveScriptToEvaluateOnNewDocumentParams{Identifier: once})
	return p
}

// hearing keeps what the page's messages have said: they go away by themselves, maybe
// before a test on a slow machine has looked.
const hearing = `window.testSaid = [];
new MutationObserver((changes) => {
	for (const n of changes.flatMap((c) => [...c.addedNodes])) if (n.matches?.('.toast')) window.testSaid.push(n.innerText);
}).observe(document, { childList: true, subtree: true });`

// said waits until a message of the page has said a text.
func (p *tab) said(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`window.testSaid.some((said) => said.includes(%s))`, quote(text)))
}

// reload loads the page anew, and waits until it is the new one that is asked.
// location.reload() does not: it returns while the old document still answers.
func (p *tab) reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
}

// listen takes note of what should not happen.
func (p *tab) listen(ev any) {
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		p.note("exception: " + faultOf(ev.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning || ev.Type == runtime.ConsoleAPICalledTypeAssert {
			var args []string
			for _, a := range ev.Args {
				args = append(args, string(a.Value)+a.Description)
			}
			p.note("console: " + strings.Join(args, " "))
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError || ev.Entry.Source == log.EntrySourceSecurity || ev.Entry.Source == log.EntrySourceViolation {
			p.note(fmt.Sprintf("%s: %s %s", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL))
		}
	case *network.EventLoadingFailed:
		if !ev.Canceled {
			p.note("request failed: " + ev.ErrorText)
		}
	case *network.EventResponseReceived:
		if ev.Response.Status >= 400 {
			p.note(fmt.Sprintf("status %d: %s", ev.Response.Status, ev.Response.URL))
		}
	}
}

func (p *tab) note(problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

// expect declares problems that the test provokes: those that have one of the
// texts in them.
func (p *tab) expect(texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, texts...)
}

func (p *tab) unexpected() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, problem := range p.problems {
		if !slices.ContainsFunc(p.expected, func(e string) bool { return strings.Contains(problem, e) }) {
			out = append(out, problem)
		}
	}
	return out
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatalf("%v; %s", err, p.describe())
	}
}

// call sends the browser a command.
func call[P, R any](p *tab, cmd cdp.Command[P, R], params P) R {
	p.t.Helper()
	res, err := chromedp.Call(p.ctx, cmd, params)
	if err != nil {
		p.t.Fatalf("%s: %v; %s", cmd.Method, err, p.describe())
	}
	return res
}

// faultOf is an exception in the page, in words.
func faultOf(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}

// eval evaluates an expression in the page, waits for it if it is a promise, and
// reads its value into out (nil: not wanted).
func (p *tab) eval(expression string, out any) {
	p.t.Helper()
	if err := evaluate(p.ctx, expression, out); err != nil {
		p.t.Fatalf("%s: %v; %s", expression, err, p.describe())
	}
}

func evaluate(ctx context.Context, expression string, out any) error {
	yes := true
	res, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, AwaitPromise: &yes, ReturnByValue: &yes})
	switch {
	case err != nil:
		return err
	case res.ExceptionDetails != nil:
		return errors.New(faultOf(res.ExceptionDetails))
	case out == nil || res.Result == nil || len(res.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(res.Result.Value, out)
}

// until waits in the page until an expression is true. The page's policy forbids
// what chromedp.Poll does, so the loop is a plain expression.
func (p *tab) until(condition string) {
	p.t.Helper()
	if err := p.becomes(condition, patience); err != nil {
		p.t.Fatalf("this never became true: %s (%v); %s", condition, err, p.describe())
	}
}

var errNotSo = errors.New("it is not so")

// becomes waits for so long until an expression is true. A document that makes room
// for another takes the loop along: it begins anew in the next.
func (p *tab) becomes(condition string, d time.Duration) (err error) {
	for end := time.Now().Add(d); ; {
		loop := fmt.Sprintf(`(async () => {
			const end = performance.now() + %d;
			for (;;) {
				try { if (%s) return true; } catch { /* not there yet */ }
				if (performance.now() > end) return false;
				await new Promise((done) => setTimeout(done, 15));
			}
		})()`, max(time.Until(end), 0).Milliseconds(), condition)
		var ok bool
		switch err = evaluate(p.ctx, loop, &ok); {
		case err == nil && ok:
			return nil
		case err == nil:
			err = errNotSo
		}
		if time.Now().After(end) || p.ctx.Err() != nil {
			return err
		}
	}
}

// goes presses two keys that lead to a screen. They must come soon after each other,
// so on a slow machine it may take more than one try.
func (p *tab) goes(key, hash string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		p.press("g", key)
		switch err := p.becomes(`location.hash === `+quote(hash), 3*time.Second); {
		case err == nil:
			return
		case time.Now().After(end):
			p.t.Fatalf("g %s does not lead to %s: %v; %s", key, hash, err, p.describe())
		}
	}
}

// describe is what the page shows, for a test that has failed.
func (p *tab) describe() string {
	var text string
	if err := evaluate(p.ctx, `location.hash + "\n" + document.body.innerText.slice(0, 3000)`, &text); err != nil {
		return fmt.Sprintf("what the page shows can't be read: %v", err)
	}
	return fmt.Sprintf("the page shows: %s\nreports: %q", text, p.unexpected())
}

// module is an expression for a module of the page, as the page itself has it.
func module(file string) string {
	return fmt.Sprintf(`import(new URL(%s, document.querySelector('script[type=module]').src))`, quote(file))
}

// hold keeps the next reply whose address has a text in it from the page until let is
// called. got waits until the reply has come.
func (p *tab) hold(address string) (got, let func()) {
	p.t.Helper()
	p.eval(fmt.Sprintf(`(() => {
		const real = window.fetch;
		const held = new Promise((let) => { window.testLet = let; });
		window.testHeld = false;
		window.fetch = async (...args) => {
			if (!String(args[0]).includes(%s)) return real(...args);
			window.fetch = real;
			const res = await real(...args);
			window.testHeld = true;
			await held;
			return res;
		};
	})()`, quote(address)), nil)
	return func() { p.t.Helper(); p.until(`window.testHeld`) }, func() { p.t.Helper(); p.eval(`window.testLet()`, nil) }
}

// see waits until the element that selector finds shows a text.
func (p *tab) see(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((el) => el.checkVisibility() && el.innerText.includes(%s))`, quote(selector), quote(text)))
}

// gone waits until no element that selector finds shows the text.
func (p *tab) gone(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`![...document.querySelectorAll(%s)].some((el) => el.checkVisibility() && el.innerText.includes(%s))`, quote(selector), quote(text)))
}

// shot writes what is seen to a file.
func (p *tab) shot(file string) {
	p.t.Helper()
	p.eval(`document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))`, nil)
	png := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func quote(s string) string {
	out, _ := json.Marshal(s) // a string can always be written
	return string(out)
}
