package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/streamwright/streamwright/internal/measure"
	"github.com/streamwright/streamwright/internal/sleep"
)

// screens lists the page's screens, each with the expression that is true once it is
// shown.
var screens = []struct{ hash, there string }{
	{"#/", `document.querySelectorAll('.tile-value').length > 0`},
	{"#/work", rows(".work-table")},
	{"#/work?state=queued&type=archive", rows(".work-table")},
	{"#/work?error=connection%20refused&label=region%3Deu", rows(".work-table")},
	{"#/dead", rows("table")},
	{"#/dead?items=1", rows("table")},
	{"#/types", rows("table")},
	{"#/workers", rows("table")},
	{"#/events", rows("table")},
	{"#/events?kind=dead&since=1h", rows("table")},
}

func rows(table string) string {
	return fmt.Sprintf(`document.querySelectorAll('main %s tbody tr').length > 0`, table)
}

// patience bounds the time until a screen is shown.
const patience = time.Minute

// look measures each screen in Chromium: how long it takes to be there, the share
// of the main thread's time that it needs while it is shown, the longest time
// without a frame, and what it keeps in memory.
func look(ctx context.Context, o options, out io.Writer) error {
	path, err := exec.LookPath(o.chromium)
	if err != nil {
		return fmt.Errorf("find the browser: %w; name it with -chromium", err)
	}
	dir, err := os.MkdirTemp("", "million-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := chromedp.NewExecAllocator(ctx, chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(strings.TrimSuffix(o.http, "/")+"/")); err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, performance.Enable, performance.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1360, Height: 900, DeviceScaleFactor: 1})
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "each screen for %v\n\n%s", o.duration, measure.Head("screen", "there after ms", "main thread busy", "with script", "with layout", "99 % of frames within ms", "longest ms", "elements", "heap MB"))
	for _, s := range screens {
		if o.screen != "" && s.hash != o.screen {
			continue
		}
		if err := lookAt(ctx, s.hash, s.there, o.duration, out); err != nil {
			return fmt.Errorf("%s: %w", s.hash, err)
		}
	}
	return nil
}

// watch counts the times between frames until it is asked for them.
const watch = `(() => { const gaps = []; window.gaps = gaps; let last = performance.now();
	const f = (now) => { gaps.push(now - last); last = now; if (window.gaps === gaps) requestAnimationFrame(f); }; requestAnimationFrame(f); })()`

// seen holds the measurements of a screen's frames.
type seen struct {
	P99, Longest float64
	Nodes        int
}

func lookAt(ctx context.Context, hash, there string, d time.Duration, out io.Writer) error {
	shown, err := opened(ctx, hash, there)
	if err != nil {
		return err
	}
	before, err := figures(ctx)
	if err != nil {
		return err
	}
	if err := evaluate(ctx, watch, nil); err != nil {
		return err
	}
	if err := sleep.For(ctx, d); err != nil {
		return err
	}
	var s seen
	if err := evaluate(ctx, `(() => { const g = window.gaps.sort((a, b) => a - b); window.gaps = null; return { P99: g[Math.floor(g.length * 0.99)] ?? 0, Longest: g.at(-1) ?? 0, Nodes: document.querySelectorAll('*').length }; })()`, &s); err != nil {
		return err
	}
	if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return err
	}
	after, err := figures(ctx)
	if err != nil {
		return err
	}
	share := func(names ...string) string {
		percent := 0.0
		for _, n := range names {
			percent += 100 * (after[n] - before[n]) / (after["Timestamp"] - before["Timestamp"])
		}
		return fmt.Sprintf("%.1f %%", percent)
	}
	fmt.Fprint(out, measure.Row("`"+hash+"`", millis(shown), share("TaskDuration"), share("ScriptDuration"), share("RecalcStyleDuration", "LayoutDuration"),
		measure.Figure(s.P99), measure.Figure(s.Longest), strconv.Itoa(s.Nodes), measure.Figure(after["JSHeapUsedSize"]/1e6)))
	return nil
}

// opened goes to a screen from another, and says how long it took until it was there.
func opened(ctx context.Context, hash, there string) (time.Duration, error) {
	var took float64
	err := evaluate(ctx, fmt.Sprintf(`(async () => {
		location.hash = '#/schedules';
		await new Promise((done) => setTimeout(done, 500));
		const start = performance.now();
		location.hash = %q;
		for (;;) {
			await new Promise((done) => requestAnimationFrame(done));
			if (%s) return performance.now() - start;
			if (performance.now() - start > %d) return -1;
		}
	})()`, hash, there, patience.Milliseconds()), &took)
	if err == nil && took < 0 {
		err = fmt.Errorf("it is not there after %v", patience)
	}
	return time.Duration(took * float64(time.Millisecond)), err
}

// figures are the browser's own of the page.
func figures(ctx context.Context) (map[string]float64, error) {
	r, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, m := range r.Metrics {
		out[m.Name] = m.Value
	}
	return out, nil
}

// evaluate evaluates an expression in the page, and waits for it if it is a promise.
func evaluate(ctx context.Context, expression string, out any) error {
	yes := true
	r, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, AwaitPromise: &yes, ReturnByValue: &yes})
	switch {
	case err != nil:
		return err
	case r.ExceptionDetails != nil:
		return errors.New(r.ExceptionDetails.Text)
	case out == nil || r.Result == nil:
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}
