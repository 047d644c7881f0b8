package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// look measures each screen in Chromium: how long it takes to be there, and what it keeps in
// memory, at first and later.
func look(ctx context.Context, o options, out io.Writer) error {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return fmt.Errorf("find the browser: %w", err)
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
	fmt.Fprintf(out, "each screen for %v\n\n%s", o.duration, measure.Head("screen", "there after ms", "heap MB", "then"))
	for _, s := range screens {
		shown, err := opened(ctx, s.hash, s.there)
		if err != nil {
			return fmt.Errorf("%s: %w", s.hash, err)
		}
		before, err := heap(ctx)
		if err != nil {
			return err
		}
		if err := sleep.For(ctx, o.duration); err != nil {
			return err
		}
		after, err := heap(ctx)
		if err != nil {
			return err
		}
		fmt.Fprint(out, measure.Row("`"+s.hash+"`", measure.Figure(shown), measure.Figure(before), measure.Figure(after)))
	}
	return nil
}

// opened goes to a screen from another, and says after how many milliseconds it was there.
func opened(ctx context.Context, hash, there string) (took float64, err error) {
	yes := true
	r, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{AwaitPromise: &yes, ReturnByValue: &yes, Expression: fmt.Sprintf(`(async () => {
		location.hash = '#/schedules';
		await new Promise((done) => setTimeout(done, 500));
		const start = performance.now();
		location.hash = %q;
		for (;;) {
			await new Promise((done) => requestAnimationFrame(done));
			if (%s) return performance.now() - start;
			if (performance.now() - start > 60_000) throw new Error('it is not there after a minute');
		}
	})()`, hash, there)})
	if err != nil {
		return 0, err
	}
	if r.ExceptionDetails != nil || r.Result == nil {
		return 0, fmt.Errorf("%+v", r.ExceptionDetails)
	}
	return took, json.Unmarshal(r.Result.Value, &took)
}

// heap returns the megabytes that the page keeps.
func heap(ctx context.Context) (float64, error) {
	if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return 0, err
	}
	r, err := chromedp.Call(ctx, performance.GetMetrics, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	for _, m := range r.Metrics {
		if m.Name == "JSHeapUsedSize" {
			return m.Value / 1e6, nil
		}
	}
	return 0, errors.New("the browser does not say what the page keeps")
}
