package events

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The patterns are what the docs promise; the code checks them by hand.
func TestNamesFollowTheirPatterns(t *testing.T) {
	typ := regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)
	worker := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	capability := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(rapid.SampledFrom([]rune("aZz09_-.@é \x00\n")), 0, 6, -1).Draw(t, "s")
		if _, err := ParseType(s); (err == nil) != typ.MatchString(s) {
			t.Fatalf("type %q: %v", s, err)
		}
		if _, err := ParseWorkerID(s); (err == nil) != (worker.MatchString(s) && !strings.Contains(s, "..")) {
			t.Fatalf("worker %q: %v", s, err)
		}
		if _, err := CheckCapabilities([]string{s}); (err == nil) != capability.MatchString(s) {
			t.Fatalf("capability %q: %v", s, err)
		}
	})
	for n, ok := range map[int]bool{MaxTypeLen: true, MaxTypeLen + 1: false} {
		if _, err := ParseType(strings.Repeat("a", n)); (err == nil) != ok {
			t.Errorf("a type of %d characters: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{MaxWorkerIDLen: true, MaxWorkerIDLen + 1: false} {
		if _, err := ParseWorkerID(strings.Repeat("a", n)); (err == nil) != ok {
			t.Errorf("a worker id of %d characters: %v", n, err)
		}
	}
}

func TestParseIDs(t *testing.T) {
	const text = "01JD3V6YB2M4C9W8ZK5T7QXRNE"
	id, err := ParseID(strings.ToLower(text))
	if err != nil || id.String() != text {
		t.Fatal(id, err)
	}
	for _, bad := range []string{"", "x", text + "0", "81JD3V6YB2M4C9W8ZK5T7QXRNE", "01JD3V6YB2M4C9W8ZK5T7QXRNU", strings.Repeat("é", 13)} {
		if _, err := ParseID(bad); err == nil {
			t.Errorf("%q was taken for an id", bad)
		}
	}
	var tok Token
	for _, want := range []Token{0, 1, NewToken(1, 1), NewToken(1<<24-1, 1<<40-1)} {
		b, _ := want.MarshalText()
		if err := tok.UnmarshalText(b); err != nil || tok != want {
			t.Errorf("token %s: %s, %v", want, tok, err)
		}
	}
	for s, want := range map[string]Priority{"": 5, "low": 2, "MEDIUM": 5, "high": 8, "0": 0, "9": 9} {
		if p, err := ParsePriority(s); p != want || err != nil {
			t.Errorf("priority %q: %d, %v", s, p, err)
		}
	}
	for _, bad := range []string{"10", "-1", "urgent", "5.0"} {
		if _, err := ParsePriority(bad); err == nil {
			t.Errorf("%q was taken for a priority", bad)
		}
	}
}

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"aéé", 4, "aé…"}, {"é", 1, "…"}, {"\xa9\xa9", 1, "…"},
	} {
		if got := Clip(tt.s, tt.n); got != tt.want {
			t.Errorf("Clip(%q, %d) is %q, want %q", tt.s, tt.n, got, tt.want)
		}
	}
}
