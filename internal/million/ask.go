package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
)

// deepPages is the number of pages of 1,000 items before the deep one.
const deepPages = 300

// questions lists the requests of the screens, and each filter alone and with others.
var questions = []struct{ name, path string }{
	{"overview: stats", "stats"},
	{"overview: figures of the last hour", "trends"},
	{"work: first page", "work?limit=50"},
	{"work: state", "work?limit=50&state=completed"},
	{"work: state and type", "work?limit=50&state=queued&type=archive"},
	{"work: type", "work?limit=50&type=email"},
	{"work: tenant (3,300 items)", "work?limit=50&tenant=tenant-7"},
	{"work: label of a fifth", "work?limit=50&label=region%3Deu"},
	{"work: label of 100 items", "work?limit=50&label=customer%3Dc77"},
	{"work: label of a fifth, type, state", "work?limit=50&label=region%3Deu&type=charge&state=dead"},
	{"work: label of 100 items and of a fifth's type and tenant", "work?limit=50&label=customer%3Dc77&type=email&q=tenant-7"},
	{"work: label, tenant and state that have nothing in common", "work?limit=50&label=customer%3Dc77&tenant=tenant-8&state=dead"},
	{"work: error, two words", "work?limit=50&error=connection+refused"},
	{"work: error, beginning of a word", "work?limit=50&error=certif"},
	{"work: error, words and label and type", "work?limit=50&error=timed+out&label=region%3Deu&type=email"},
	{"work: error, beginning of a number", "work?limit=50&error=refused+12"},
	{"work: error that nothing has", "work?limit=50&error=nothinghasthis"},
	{"work: code", "work?limit=50&code=step_7"},
	{"work: search, a dedup key", "work?limit=50&q=order-500000"},
	{"work: search, a label's value", "work?limit=50&q=c77"},
	{"work: search, words", "work?limit=50&q=service+unavailable"},
	{"work: reason, not indexed, frequent", "work?limit=50&reason=not_retryable"},
	{"work: reason, not indexed, of nothing", "work?limit=50&reason=nosuch"},
	{"work: created in the first minute", "work?limit=50&created_before=" + early},
	{"work: held by a worker", "work?limit=100&worker=driven-1"},
	{"dead: by cause", "causes?limit=200"},
	{"dead: items", "dead?limit=50"},
	{"dead: items of a type", "dead?limit=50&type=email"},
	{"dead: items with words", "dead?limit=50&error=connection+refused"},
	{"dead: items with words that none has", "dead?limit=50&error=nothinghasthis"},
	{"dead: label", "dead?limit=50&label=customer%3Dc77"},
	{"types", "types"},
	{"workers", "workers"},
	{"schedules", "schedules"},
}

// early stands for a time when only the first items were there.
const early = "EARLY"

// asker asks the HTTP API.
type asker struct {
	base  string
	times int
	out   io.Writer
}

// ask measures each question, and pages that lie deep.
func ask(ctx context.Context, o options, out io.Writer) error {
	a := asker{base: strings.TrimSuffix(o.http, "/"), times: o.times, out: out}
	first, err := a.earliest(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out, measure.Head("question", "items", "median ms", "slowest ms", "bytes"))
	for _, q := range questions {
		if err := a.measure(ctx, q.name, strings.ReplaceAll(q.path, early, url.QueryEscape(first.Add(time.Minute).Format(time.RFC3339)))); err != nil {
			return err
		}
	}
	for name, query := range map[string]string{"all": "", "of a state": "&state=completed", "of a label of a fifth": "&label=region%3Deu"} {
		if err := a.deep(ctx, name, query); err != nil {
			return err
		}
	}
	return a.cpu(ctx)
}

// page holds the fields that are read of a list.
type page struct {
	Items []struct {
		CreatedAt time.Time `json:"created_at"`
	} `json:"items"`
	Cursor string `json:"next_cursor"`
}

// get reads an answer; a path that does not begin with / is one of the API.
func (a asker) get(ctx context.Context, path string) (data []byte, took time.Duration, err error) {
	if !strings.HasPrefix(path, "/") {
		path = "/api/v1/" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, data)
	}
	return data, time.Since(start), err
}

// measure asks a question again and again.
func (a asker) measure(ctx context.Context, name, path string) error {
	took, items, size := make([]time.Duration, a.times), 0, 0
	for i := range took {
		data, t, err := a.get(ctx, path)
		if err != nil {
			return err
		}
		var p page
		_ = json.Unmarshal(data, &p) // what is no list has no items
		took[i], items, size = t, len(p.Items), len(data)
	}
	slices.Sort(took)
	_, err := fmt.Fprint(a.out, measure.Row(name, strconv.Itoa(items), millis(measure.Quantile(took, 0.5)), millis(took[len(took)-1]), strconv.Itoa(size)))
	return err
}

func millis(d time.Duration) string { return measure.Figure(measure.Millis(d)) }

// list asks for a page of a list.
func (a asker) list(ctx context.Context, path string) (p page, err error) {
	data, _, err := a.get(ctx, path)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}

// deep goes many large pages into a list, and measures the page there.
func (a asker) deep(ctx context.Context, name, query string) error {
	cursor, n := "", 0
	for range deepPages {
		p, err := a.list(ctx, "work?limit=1000"+query+"&cursor="+cursor)
		if err != nil {
			return err
		}
		if n += len(p.Items); p.Cursor == "" {
			break
		}
		cursor = p.Cursor
	}
	return a.measure(ctx, fmt.Sprintf("work, %s: page behind %d items", name, n), "work?limit=50"+query+"&cursor="+cursor)
}

// earliest returns the approximate time at which the engine's log began: the creation
// of the first item that `million load` makes.
func (a asker) earliest(ctx context.Context) (at time.Time, err error) {
	p, err := a.list(ctx, "work?limit=1&q=order-0")
	if err == nil && len(p.Items) == 0 {
		err = errors.New("the engine does not have the items that `million load` makes")
	}
	if err != nil {
		return at, err
	}
	return p.Items[0].CreatedAt, nil
}

// cpu measures the CPU time that a page of the list costs the engine's process, by its
// own metric.
func (a asker) cpu(ctx context.Context) error {
	const pages = 500
	before, err := a.seconds(ctx)
	if err != nil {
		return err
	}
	for range pages {
		if _, _, err := a.get(ctx, "work?limit=50&label=region%3Deu&state=completed"); err != nil {
			return err
		}
	}
	after, err := a.seconds(ctx)
	if err == nil {
		fmt.Fprintf(a.out, "\nCPU of the engine: %.2f ms a page of 50, whatever else it does included\n", (after-before)*1000/pages)
	}
	return err
}

// seconds returns the CPU time that the engine's process has used.
func (a asker) seconds(ctx context.Context) (float64, error) {
	data, _, err := a.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "process_cpu_seconds_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(text), 64)
		}
	}
	return 0, fmt.Errorf("the metrics don't say how much CPU time the engine has used")
}
