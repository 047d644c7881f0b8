package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// maxErrorText bounds what an error may quote of its input, in bytes.
const maxErrorText = 4096

// checkRefusal fails unless err is an *events.Error with a code and a text of
// a bounded length.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code == "" || e.Code == events.CodeInternal || e.Message == "" {
		t.Fatalf("%v is no refusal with a code and a text", err)
	}
	if len(e.Message) > maxErrorText {
		t.Fatalf("the error text has %d bytes: %.200q", len(e.Message), e.Message)
	}
}

// FuzzReports reads an array of reports in the quick way and by encoding/json:
// what the quick way accepts, both read alike, and what is read is written alike.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1-1","worker":"w1","event":"claim"}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"000000100000001","worker":"w1","session":"s","event":"complete","attempt":1,"start":true,"reason":"r"},{"id":"","token":"","worker":"","event":"x","attempt":0}]`))
	f.Add([]byte(`[{"id":"a","token":"b","worker":"c","event":"fail","error":"<&>","retry_after_ms":-5,"retryable":false}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"c","event":"spawn","children":[{"type":"a","params":1}],"continuation":"x","child_policy":"fail"}]`))
	f.Add([]byte(`[{"id":"01JD3V6YB2M4C9W8ZK5T7QXRNE","token":"1","worker":"c","event":"progress","percent":101,"message":"m","checkpoint":{"a":1}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		quick, ok := wire.DecodeReports(data)
		var slow []wire.Report
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err := d.Decode(&slow)
		if ok && (err != nil || !reflect.DeepEqual(quick, slow)) {
			t.Fatalf("%q is read as\n%+v, by encoding/json as\n%+v, %v", data, quick, slow, err)
		}
		if err != nil {
			return
		}
		written, err := wire.EncodeReports(nil, slow)
		if err != nil {
			t.Fatalf("%+v can't be written: %v", slow, err)
		}
		var back []wire.Report
		if err := json.Unmarshal(written, &back); err != nil {
			t.Fatalf("%+v is written as %q: %v", slow, written, err)
		}
	})
}

// FuzzReported reads an array of answers as workers do.
func FuzzReported(f *testing.F) {
	f.Add([]byte(`[{"ok":true,"attempt":1,"deadline":"2026-01-02T03:04:05Z","timeout_ms":5,"state":"running","position":"0-12"}]`))
	f.Add([]byte(`[{"ok":false,"error":{"code":"stale_token","message":"m","retry_after_ms":5}},{"ok":true}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		quick, ok := wire.DecodeReported(nil, data)
		var slow []wire.Reported
		err := json.Unmarshal(data, &slow)
		if ok && (err != nil || !reflect.DeepEqual(quick, slow)) {
			t.Fatalf("%q is read as\n%+v, by encoding/json as\n%+v, %v", data, quick, slow, err)
		}
	})
}

// isSubject reports whether a worker can subscribe to a subject.
func isSubject(s string) bool {
	return !strings.ContainsAny(s, "*> \t\r\n") && !slices.Contains(strings.Split(s, "."), "")
}

// FuzzTexts reads one text as everything that has a written form of its own.
// What is read can be written, and is read back as the same.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", "a=b,c=d", "a=b=c, =", "0-12", "18446744073709551615", "high", "9", "01JD3V6YB2M4C9W8ZK5T7QXRNE", "email", "w-1", "1-1", "queued", "gpu", "\xff", "a=\x00", "host.example.org-1", "a..b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := wire.ParseLabels(s); err != nil {
			checkRefusal(t, err)
		} else if back, err := wire.ParseLabels(strings.Join(wire.LabelHeader(m), "")); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("labels %q are %q, and written and read again %q, %v", s, m, back, err)
		}
		if seq, err := wire.Position(s).Seq(); err != nil {
			checkRefusal(t, err)
		} else if back, err := wire.PositionOf(seq).Seq(); err != nil || back != seq {
			t.Fatalf("position %q is %v, and written and read again %v, %v", s, seq, back, err)
		}
		if tok, err := wire.ParseToken(s); err != nil {
			checkRefusal(t, err)
		} else if back, err := wire.ParseToken(tok.String()); err != nil || back != tok {
			t.Fatalf("token %q is %v, and written and read again %v, %v", s, tok, back, err)
		}
		if id, err := events.ParseID(s); err == nil {
			if back, err := events.ParseID(id.String()); err != nil || back != id {
				t.Fatalf("id %q is %v, and written and read again %v, %v", s, id, back, err)
			}
		}
		if p, err := events.ParsePriority(s); err == nil && p > events.MaxPriority {
			t.Fatalf("priority %q is %d", s, p)
		}
		if typ, err := events.ParseType(s); err == nil && (string(typ) != s || strings.ContainsAny(s, ".*> \t\r\n") || len(s) > 63) {
			t.Fatalf("type %q is %q", s, typ)
		}
		if w, err := events.ParseWorkerID(s); err == nil && (string(w) != s || !isSubject(wire.Default.Control(w))) {
			t.Fatalf("worker id %q is %q", s, w)
		}
		if d, err := time.ParseDuration(s); err == nil && d > 0 && events.DurationOf(d).Milliseconds() < 1 {
			t.Fatalf("%s is %s", s, events.DurationOf(d))
		}
	})
}
