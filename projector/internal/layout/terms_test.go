package layout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestWords(t *testing.T) {
	many := make([]string, MaxErrorWords+5)
	for i := range many {
		many[i] = fmt.Sprintf("word%d", i)
	}
	long := strings.Repeat("x", MaxWordBytes)
	for _, c := range []struct{ code, text, want string }{
		{"", "", ""},
		{"", "a, b: c!", ""},
		{"http_503", "dial tcp 10.0.0.7:5432: Connection REFUSED, connection", "http 503 dial tcp 10 5432 connection refused"},
		{"", "Größe überschritten \xff\xfe größe", "größe überschritten"},
		{"", long + "yz end", long + " end"},
		{"", strings.Repeat("x", MaxWordBytes-1) + "öz", strings.Repeat("x", MaxWordBytes-1) + "z"},
		{"first code", strings.Join(many, " "), "first code " + strings.Join(many[:MaxErrorWords-2], " ")},
	} {
		var w Words
		w.OfItem(&events.Item{Code: c.code, Error: c.text})
		if got := join(w.List); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.code, c.text, got, c.want)
		}
	}
	if got := join(QueryWords(strings.Join(many, " "))); got != strings.Join(many[:MaxQueryWords], " ") {
		t.Errorf("of a long question count %q", got)
	}
	var w Words
	text := &events.Item{Error: strings.Repeat("connection to 10.0.0.7 refused ", 5), Code: "http_503"}
	w.OfItem(text)
	if n := testing.AllocsPerRun(100, func() { w.OfItem(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func join(list [][]byte) string {
	var b []string
	for _, w := range list {
		b = append(b, string(w))
	}
	return strings.Join(b, " ")
}

// All words of a question must be there, the last of them as the beginning of one.
func TestMatch(t *testing.T) {
	var w Words
	w.OfItem(&events.Item{Code: "http_503", Error: "Connection refused"})
	for query, want := range map[string]bool{
		"": true, "connection": true, "CONN": true, "refused conn": true, "conn refused": false, "503 http": true, "50 http": false, "refused nothing": false, "efused": false,
	} {
		if got := w.Match(QueryWords(query)); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}

func TestScheduleOf(t *testing.T) {
	for source, want := range map[string]string{events.SourceSchedule: "nightly", "api": "", "": ""} {
		if got := ScheduleOf(&events.Item{Provenance: events.Provenance{Source: source, Trigger: "nightly"}}); got != want {
			t.Errorf("from %q: %q", source, got)
		}
	}
}
