package core

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenNext is a log that a program of the next format level has raised, and has gone on
// to cut: this program must refuse it.
const goldenNext = "testdata/golden_next_level.jsonl"

const next = events.FormatLevel + 1

// reader is a state over base that reads what the world's own reads.
func (w *world) reader(base Base) *State {
	w.t.Helper()
	s, err := NewState(base)
	if err == nil {
		err = s.SetFormatLevel(w.s.reads)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// nextLevelWorld raises a log to the next format level, and goes through a round.
func nextLevelWorld(t *testing.T) *world {
	w := newWorld(t)
	if err := w.s.SetFormatLevel(next); err != nil {
		t.Fatal(err)
	}
	w.do(Own{Owner: "engine-1", Version: "2.0.0"})
	id := w.submit(Submit{})
	w.do(RaiseFormat{Level: next, Version: "2.0.0", By: "ops"})
	w.now = w.now.Add(time.Minute)
	w.do(BeginCut{})
	w.carry(id)
	w.do(EndCut{})
	w.submit(Submit{})
	return w
}

// Who reads the level follows the log over the raise and through a round, from its first
// event or from the round's begin.
func TestRaiseFormat(t *testing.T) {
	w := nextLevelWorld(t)
	if got := w.s.Level(); got != next {
		t.Fatalf("the log is at level %d after the raise to %d", got, next)
	}
	began := slices.IndexFunc(w.log, func(ev events.Event) bool { return ev.Kind == events.KindSnapshot })
	whole, cut := w.base(), w.baseFrom(w.log[began].Seq)
	if whole.dump() != cut.dump() || cut.meta.Level != next || cut.meta.LevelBy != "2.0.0" {
		t.Fatalf("the log from the round on gives\n%s\nthe whole log\n%s", cut.dump(), whole.dump())
	}
	midway := w.reader(newMapBase())
	if err := midway.Apply(w.log[began]); err != nil || midway.Level() != next {
		t.Fatalf("after the first event of the cut log: level %d, %v", midway.Level(), err)
	}
}

// What is decided in many parts is decided as the program reads the log, too.
func TestPlanInARaisedLog(t *testing.T) {
	w := nextLevelWorld(t)
	run := w.claim(w.submit(Submit{}), 7)
	d := w.do(Spawn{Run: run, Children: []Submit{{Type: "email", NewID: w.newID()}}})
	if len(d.Events) == 0 {
		t.Fatal("nothing is spawned")
	}
}

// The level rises only, to what the program reads, by its owner.
func TestRaiseFormatIsRefused(t *testing.T) {
	w := newWorld(t)
	if w.s.Level() != 1 {
		t.Fatalf("a new log is at level %d", w.s.Level())
	}
	w.refused(events.CodeBadRequest, RaiseFormat{Level: next})
	w.refused(events.CodeBadRequest, RaiseFormat{Level: 0})
	w.refused(events.CodeTooLarge, RaiseFormat{Level: 1, By: strings.Repeat("x", events.MaxNameLen+1)})
	w.refused(events.CodeWrongState, RaiseFormat{Level: 1}) // nobody owns the log
	w.do(Own{Owner: "o"})
	if d := w.do(RaiseFormat{Level: 1}); !d.Repeat || len(d.Events) != 0 {
		t.Fatalf("raised to where it is: %+v", d)
	}
	w = nextLevelWorld(t)
	if d := w.do(RaiseFormat{Level: 1}); !d.Repeat {
		t.Fatalf("lowered: %+v", d)
	}
	again := events.Event{Kind: events.KindFormatRaised, Seq: nextFrame(w.s), At: w.now, Body: &events.FormatRaised{Level: next}}
	if err := w.s.Apply(again); !errors.Is(err, events.ErrCorrupt) {
		t.Fatalf("an event that raises the level to where it is: %v", err)
	}
}

// A program of this level reads a log of the next one up to the raise, and no further;
// nothing at all of what is left once the log has been cut behind it.
func TestNextLevelIsRefused(t *testing.T) {
	w := nextLevelWorld(t)
	golden(t, goldenNext, w.text())
	lines := readText(t, goldenNext)
	lineOf := func(kind events.Kind) int {
		return slices.IndexFunc(lines, func(l line) bool { return bytes.Contains(l.data, fmt.Appendf(nil, `"kind":"%s"`, kind)) })
	}
	for name, tt := range map[string]struct{ first, refused int }{
		"whole": {0, lineOf(events.KindFormatRaised)},
		"cut":   {lineOf(events.KindSnapshot), lineOf(events.KindSnapshot)},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewState(newMapBase())
			at := tt.first
			for ; err == nil && at < len(lines); at++ {
				_, err = lines[at].apply(s)
			}
			var newer *events.NewerError
			if !errors.As(err, &newer) || !errors.Is(err, events.ErrNewer) || at-1 != tt.refused {
				t.Fatalf("line %d: %v", at, err)
			}
			if *newer != (events.NewerError{Level: next, Reads: events.FormatLevel, Version: "2.0.0"}) {
				t.Fatalf("%+v", newer)
			}
			if want := fmt.Sprintf("the log has format level %d, this program reads up to level %d: use version 2.0.0 or newer", next, events.FormatLevel); !strings.Contains(err.Error(), want) {
				t.Fatalf("%q does not say %q", err, want)
			}
		})
	}
}

// A store that has passed the raise is refused without a look at the log.
func TestStoreOfTheNextLevelIsRefused(t *testing.T) {
	w := nextLevelWorld(t)
	s, err := NewState(w.base())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetFormatLevel(events.FormatLevel); !errors.Is(err, events.ErrNewer) {
		t.Fatalf("set: %v", err)
	}
	queued := events.Event{Kind: events.KindOwned, Seq: nextFrame(s), At: w.now, Body: &events.Owned{Epoch: 2, Owner: "o"}}
	if err := s.Apply(queued); !errors.Is(err, events.ErrNewer) {
		t.Fatalf("apply: %v", err)
	}
}

// Each level has a golden log, written by the first program of the level, which all later
// ones replay. Level 1's is golden.jsonl.
func TestEachLevelHasAGoldenLog(t *testing.T) {
	for level := 1; level <= events.FormatLevel; level++ {
		path := goldenLog
		if level > 1 {
			path = fmt.Sprintf("testdata/golden_level_%d.jsonl", level)
		}
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v: commit a log of format level %d that has all that is new in it", err, level)
		}
		s, err := NewState(newMapBase())
		for _, l := range readText(t, path) {
			if err == nil {
				_, err = l.apply(s)
			}
		}
		if err != nil || s.Level() != level {
			t.Fatalf("%s gives level %d, want %d: %v", path, s.Level(), level, err)
		}
	}
}

// What events hold is frozen for each level: a program must not meet a kind or a field
// that it does not know in a log whose level it reads.
func TestFieldsOfEventsAreThoseOfTheLevel(t *testing.T) {
	path := fmt.Sprintf("testdata/fields_level_%d.txt", events.FormatLevel)
	var now strings.Builder
	for k := range events.Kind(events.NumKinds) {
		if body := newBody(k); body != nil {
			fmt.Fprintf(&now, "%s\n", k)
			listFields(&now, reflect.TypeOf(body).Elem(), "  ", nil)
		}
	}
	had, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && *update {
		had, err = []byte(now.String()), os.WriteFile(path, []byte(now.String()), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, a, b := firstDifference(had, []byte(now.String())); line > 0 {
		t.Fatalf("%s differs from line %d on:\nhas   %s\nwants %s\n"+
			"Programs of level %d that are in use don't know this. Raise events.FormatLevel, write it only in a log of the new level (State.Level), and commit testdata/golden_level_%d.jsonl.\n"+
			"If no such program has been released, or if one that passes it over decides the same: remove the file, and write it with: go test ./events/core -update", path, line, a, b, events.FormatLevel, next)
	}
}

// listFields lists the JSON fields of a type, a line each, with those within.
func listFields(sb *strings.Builder, t reflect.Type, indent string, within []reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || slices.Contains(within, t) {
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		switch {
		case tag == "-" || !f.IsExported():
			continue
		case f.Anonymous && tag == "":
			listFields(sb, f.Type, indent, append(within, t))
			continue
		}
		fmt.Fprintf(sb, "%s%s %s\n", indent, tag, f.Type)
		listFields(sb, f.Type, indent+"  ", append(within, t))
	}
}
