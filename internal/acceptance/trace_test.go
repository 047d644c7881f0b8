package acceptance

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// collected takes in what programs send over OTLP.
type collected struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &req)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// tree draws the spans of the trace that has one of this name, each below its
// parent, by when they began; empty if there is none.
func (c *collected) tree(root string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.spans, func(s *otlp.Span) bool { return s.Name == root && len(s.ParentSpanId) == 0 })
	if at < 0 {
		return ""
	}
	var b strings.Builder
	var draw func(s *otlp.Span, depth int)
	draw = func(s *otlp.Span, depth int) {
		fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", depth), s.Name)
		if s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			b.WriteString(" !")
		}
		b.WriteString("\n")
		var below []*otlp.Span
		for _, k := range c.spans {
			if string(k.TraceId) == string(s.TraceId) && string(k.ParentSpanId) == string(s.SpanId) {
				below = append(below, k)
			}
		}
		slices.SortFunc(below, func(x, y *otlp.Span) int { return int(int64(x.StartTimeUnixNano - y.StartTimeUnixNano)) })
		for _, k := range below {
			draw(k, depth+1)
		}
	}
	draw(c.spans[at], 0)
	return b.String()
}

// One trace goes through four processes: the command line that submits, the
// engine, the worker and its child; and shows the waiting as well as the runs.
func TestTraceAcrossProcesses(t *testing.T) {
	c := &collected{}
	srv := httptest.NewServer(c)
	defer srv.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	p := serve(t, "[defaults]\nbackoff = {initial = \"20ms\", max = \"20ms\"}\n")
	begin(t, p.url(), "work", "email", "--", "sh", "-c", `test $WORK_ATTEMPT = 2 && echo "\"$TRACEPARENT\"" || exit 75`)
	var sub wire.Submitted
	fromJSON(t, []byte(cli(t, p.url(), "submit", "email", "1", "--json").wants(t, 0).out), &sub)
	it := p.wait(sub.ID, events.StateCompleted)
	want := `submit email
  email
    queued
    attempt !
      run email !
    delayed
    queued
    attempt
      run email
`
	var got string
	eventually(t, "the whole trace has come", func() bool { got = c.tree("submit email"); return got == want })
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.spans[slices.IndexFunc(c.spans, func(s *otlp.Span) bool { return s.Name == "run email" && s.GetStatus().GetCode() == 0 })]
	if want := fmt.Sprintf(`"00-%s-%s-01"`, hex.EncodeToString(last.TraceId), hex.EncodeToString(last.SpanId)); string(it.Result) != want {
		t.Errorf("the child had the traceparent %s, and its run is %s", it.Result, want)
	}
}
