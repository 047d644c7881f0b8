package events

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a newer program wrote is refused as such, whatever is in it; only what says which
// level the log has is read.
func TestDecodeOfANewerLevel(t *testing.T) {
	const next = FormatLevel + 1
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, body := range []Body{&FormatRaised{Level: next, Version: "2.0.0"}, &Snapshot{Round: 3, Mark: MarkBegin, Level: next, Version: "2.0.0"}} {
		ev := Event{Kind: body.Kind(), At: at, Body: body}
		data, err := ev.AppendJSON(nil)
		if err != nil || !strings.HasPrefix(string(data), fmt.Sprintf(`{"v":%d,`, next)) {
			t.Fatalf("%s: %v", data, err)
		}
		if back, err := DecodeEvent(data); err != nil || back.Kind != ev.Kind {
			t.Errorf("%s: %v", data, err)
		}
	}
	for name, text := range map[string]string{
		"another kind":         `{"v":%d,"kind":"owned","at":"2026-01-02T03:04:05Z","data":{"epoch":1,"owner":"o","version":"2.0.0"}}`,
		"an unknown kind":      `{"v":%d,"kind":"dreamt","at":"2026-01-02T03:04:05Z","data":{"version":"2.0.0"}}`,
		"another payload":      `{"v":%d,"kind":"format_raised","at":"2026-01-02T03:04:05Z","data":{"level":"high","version":"2.0.0"}}`,
		"another level within": `{"v":%d,"kind":"format_raised","at":"2026-01-02T03:04:05Z","data":{"level":99,"version":"2.0.0"}}`,
	} {
		_, err := DecodeEvent(fmt.Appendf(nil, text, next))
		var newer *NewerError
		if !errors.As(err, &newer) || !errors.Is(err, ErrNewer) || errors.Is(err, ErrCorrupt) || *newer != (NewerError{next, FormatLevel, "2.0.0"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
