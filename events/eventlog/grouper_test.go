package eventlog

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

// TestGrouper drives a Grouper by a line for each message: n/of for an event,
// - for a single one, x for a foreign message; | takes. Groups are written
// first..last>through(skipped).
func TestGrouper(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		midway         bool
	}{
		{name: "singles", in: "- - - |", want: "1..3>3(0)"},
		{name: "a decision", in: "1/3 2/3 3/3 |", want: "1..3>3(0)"},
		{name: "nothing taken before the end", in: "1/3 2/3 | 3/3 |", want: "1..3>3(0)"},
		{name: "interrupted by a single", in: "- 1/3 2/3 - |", want: "1..4>4(2)"},
		{name: "interrupted by a group", in: "1/2 1/3 2/3 3/3 |", want: "2..4>4(1)"},
		{name: "interrupted by one of the same size", in: "1/2 1/2 2/2 |", want: "2..3>3(1)"},
		{name: "cut at the end", in: "- 1/2 |", want: "1..1>1(0)"},
		{name: "interrupted twice", in: "1/2 1/2 - |", want: "3..3>3(2)"},
		{name: "foreign", in: "- x - |", want: "1..3>3(1)"},
		{name: "foreign at the end", in: "- x x |", want: "1..1>1(0) ..>3(2)"},
		{name: "foreign only", in: "x | x |", want: "..>1(1) ..>2(1)"},
		{name: "foreign interrupts", in: "1/2 x |", want: "..>2(2)"},
		{name: "foreign, then the rest", in: "1/2 x 2/2", want: "corrupt at 3"},
		{name: "interrupted, then cut", in: "1/2 1/2 |", want: "..>1(1)"},
		{name: "cut, then nothing new", in: "- | 1/2 |", want: "1..1>1(0)"},
		{name: "no beginning", in: "2/2", want: "corrupt at 1"},
		{name: "a gap", in: "1/3 3/3", want: "corrupt at 2"},
		{name: "another size", in: "1/3 2/4", want: "corrupt at 2"},
		{name: "midway", in: "2/3 3/3 - |", want: "3..3>3(2)", midway: true},
		{name: "midway no longer", in: "2/2 - 2/2", want: "corrupt at 3", midway: true},
		{name: "a hole", in: "1/2 hole 2/2", want: "corrupt at 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Grouper{Midway: c.midway}
			if got := drive(&g, c.in); got != c.want {
				t.Errorf("%s: got %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func drive(g *Grouper, in string) string {
	var out []string
	seq := events.Seq(0)
	for _, w := range strings.Fields(in) {
		if w == "|" {
			_ = flush(g, func(grp Group) error {
				s := ".."
				if n := len(grp.Events); n > 0 {
					s = grp.Events[0].Seq.String() + ".." + grp.Events[n-1].Seq.String()
				}
				s += ">" + grp.Through.String() + "(" + strconv.Itoa(grp.Skipped) + ")"
				if grp.Checksum != uint64(grp.Through)*10 {
					s += " checksum " + strconv.FormatUint(grp.Checksum, 10)
				}
				if grp.Bytes != 7*len(grp.Events) {
					s += " bytes " + strconv.Itoa(grp.Bytes)
				}
				out = append(out, s)
				return nil
			})
			continue
		}
		seq++
		var err error
		switch w {
		case "x":
			g.Foreign(seq, uint64(seq)*10)
		case "hole":
		case "-":
			err = g.Event(events.Event{Seq: seq}, uint64(seq)*10, 7)
		default:
			a, b, _ := strings.Cut(w, "/")
			n, _ := strconv.Atoi(a)
			of, _ := strconv.Atoi(b)
			err = g.Event(events.Event{Seq: seq, Tx: events.Tx{N: n, Of: of}}, uint64(seq)*10, 7)
		}
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			return "corrupt at " + corrupt.Seq.String()
		}
	}
	return strings.Join(out, " ")
}

func TestAppendIDs(t *testing.T) {
	w := newWriter()
	for _, id := range []string{
		string(appendID(nil, w, 1, 1)), string(appendID(nil, w, 1<<63, 1000)),
	} {
		if !isAppendID(id) {
			t.Errorf("%q is none", id)
		}
	}
	for _, id := range []string{"", "x", w, w + ".1", w + ".1.", w + "..1", w + ".1.1.1", w + ".1.-", strings.ToLower(w) + ".1.a!", "somebody's own id", strings.Repeat("A", 60)} {
		if isAppendID(id) {
			t.Errorf("%q is one", id)
		}
	}
	e := encoder{writer: w, batch: 36*36 - 1}
	for i := range 1300 {
		e.idb = appendID(e.idb, w, e.batch, i+1)
	}
	e.cutIDs(1300)
	for i, id := range e.ids {
		if want := string(appendID(nil, w, e.batch, i+1)); id != want {
			t.Fatalf("id %d is %s, want %s", i, id, want)
		}
	}
}
