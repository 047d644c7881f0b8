//go:build linux || darwin

package process

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/workers"
)

// FuzzReportLines has a child write anything to its report descriptor, in
// reads of any size. It does not matter how it is cut; a line that asks for an
// end and can't be read fails the run rather than counting as none.
func FuzzReportLines(f *testing.F) {
	f.Add([]byte("{\"progress\":50,\"message\":\"m\"}\n{\"checkpoint\":{\"a\":1}}\n"), uint8(3))
	f.Add([]byte("{\"spawn\":{\"children\":[{\"type\":\"a\",\"params\":1}],\"continuation\":true,\"child_policy\":\"fail\"}}"), uint8(1))
	f.Add([]byte("{\"snooze\":\"5m\",\"reason\":\"r\"}\n{\"retry_after\":\"-1s\"}\n\n{\"snooze\":1}"), uint8(100))
	f.Add([]byte("{\"progress\":101}\nnonsense\n{\"spawn\":"), uint8(7))
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		whole, saidWhole := readReport(t, data, len(data))
		parts, saidParts := readReport(t, data, int(size)+1)
		if saidWhole != saidParts || (whole == nil) != (parts == nil) {
			t.Fatalf("in one read: %+v %q\nin parts: %+v %q", whole, saidWhole, parts, saidParts)
		}
		if whole == nil {
			for line := range bytes.SplitSeq(data, []byte("\n")) {
				if asksForEnd(line) && !json.Valid(line) && len(bytes.TrimSpace(line)) > 0 {
					t.Fatalf("%q asks for an end, and counts as none", line)
				}
			}
			return
		}
		if whole.err == nil && whole.result == nil && whole.retryAfter <= 0 {
			t.Fatalf("an end that is none: %+v", whole)
		}
	})
}

func readReport(t *testing.T, data []byte, size int) (*ending, string) {
	var said bytes.Buffer
	item := &workers.RawItem{
		OnProgress:   func(percent int, message string) { said.WriteString(message) },
		OnCheckpoint: func(_ context.Context, doc json.RawMessage) error { said.Write(doc); return nil },
		Sink: func(_ time.Time, _, message string) {
			if len(message) > 1024 {
				t.Fatalf("a log record of %d bytes", len(message))
			}
			said.WriteString(message)
		},
	}
	var end *ending
	_ = workers.Invoke(t.Context(), func(ctx context.Context, it *workers.RawItem) (any, error) {
		r := &reporter{ctx: ctx, item: it}
		for len(data) > 0 {
			n := min(size, len(data))
			r.take(data[:n])
			data = data[n:]
		}
		r.line()
		end = r.end
		return nil, nil
	}, item)
	return end, said.String()
}
