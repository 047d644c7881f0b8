package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/streamwright/streamwright/internal/measure"
)

// questions lists requests of each filter alone and with others: those of
// docs/guides/LISTING.md.
var questions = []struct{ name, query string }{
	{"first page", ""},
	{"state", "&state=completed"},
	{"type", "&type=email"},
	{"tenant (3,300 items)", "&tenant=tenant-7"},
	{"label of a fifth", "&label=region%3Deu"},
	{"label of 100 items", "&label=customer%3Dc77"},
	{"label of a fifth, type, state", "&label=region%3Deu&type=charge&state=dead"},
	{"label, tenant and state that have nothing in common", "&label=customer%3Dc77&tenant=tenant-8&state=dead"},
	{"error, two words", "&error=connection+refused"},
	{"error, words and label and type", "&error=timed+out&label=region%3Deu&type=email"},
	{"search, a dedup key", "&q=order-500000"},
	{"search, a label's value", "&q=c77"},
	{"reason, not indexed, of nothing", "&reason=nosuch"},
}

// ask measures each question, asked again and again, and the page that lies behind 300 others
// of 1,000 items.
func ask(ctx context.Context, o options, out io.Writer) error {
	fmt.Fprint(out, measure.Head("question", "items", "median ms", "slowest ms"))
	again := func(name, query string) error {
		took, items := make([]time.Duration, o.times), 0
		for i := range took {
			start := time.Now()
			p, err := o.list(ctx, "limit=50"+query)
			if err != nil {
				return err
			}
			took[i], items = time.Since(start), len(p.Items)
		}
		fmt.Fprint(out, measure.Row(name, strconv.Itoa(items), measure.Figure(measure.Quantile(took, 0.5)), measure.Figure(measure.Quantile(took, 1))))
		return nil
	}
	for _, q := range questions {
		if err := again(q.name, q.query); err != nil {
			return err
		}
	}
	p, n := page{}, 0
	for range 300 {
		next, err := o.list(ctx, "limit=1000&cursor="+p.Cursor)
		if err != nil {
			return err
		}
		if n += len(next.Items); next.Cursor == "" {
			break
		}
		p = next
	}
	return again(fmt.Sprintf("page behind %d items", n), "&cursor="+p.Cursor)
}

// page holds the fields that are read of a list.
type page struct {
	Items  []json.RawMessage `json:"items"`
	Cursor string            `json:"next_cursor"`
}

// list asks the HTTP API for a page of the list.
func (o options) list(ctx context.Context, query string) (p page, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.http, "/")+"/api/v1/work?"+query, nil)
	if err != nil {
		return p, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return p, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", query, resp.Status, data)
	}
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(data, &p)
}
