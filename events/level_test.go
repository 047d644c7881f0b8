package events

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRaiseTo(t *testing.T) {
	for _, tt := range []struct {
		mine   int
		others []int
		want   int
	}{
		{1, nil, 1},
		{3, nil, 3},
		{3, []int{3, 2}, 2},
		{2, []int{3, 4}, 2},
		{3, []int{3, 0}, 1}, // one that does not say
	} {
		if got := RaiseTo(tt.mine, tt.others); got != tt.want {
			t.Errorf("RaiseTo(%d, %v) = %d, want %d", tt.mine, tt.others, got, tt.want)
		}
	}
}

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
