package core

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenNamespaces is the part of the golden world that has namespaces in it.
func goldenNamespaces(w *world) {
	w.now = w.now.Add(time.Minute)
	full := events.NamespaceInfo{Name: "acme", Paused: true, Node: "node-2", Limits: events.NamespaceLimits{
		MaxQueued: 100_000, MaxLogBytes: 10 << 30, MaxDocumentBytes: 1 << 30, RequestsPerSecond: 1000,
	}}
	w.do(SetNamespace{Name: "acme", Source: events.SourceFile, Change: full.Change()})
	w.do(SetNamespace{Name: "beta", Source: events.SourceAPI})
	w.do(SetNamespace{Name: "gone", Source: events.SourceAPI})
	w.now = w.now.Add(time.Minute)
	w.do(SetNamespace{Name: "beta", Source: events.SourceAPI, Existing: true, Change: events.NamespaceChange{Paused: new(true)}})
	w.do(ReleaseNamespace{Name: "acme"})
	w.removeNamespace("gone", "ops")
	w.removeNamespace("beta", "")
	w.do(SetNamespace{Name: "beta", Source: events.SourceAPI}) // another one
	w.do(SetNamespace{Name: "beta", Source: events.SourceAPI, Change: events.NamespaceChange{Node: new("n1")}})
}

// removeNamespace removes a namespace, and takes it off the list.
func (w *world) removeNamespace(name events.Namespace, by string) {
	w.t.Helper()
	w.do(RemoveNamespace{Name: name, By: by})
	w.do(ForgetNamespace{Name: name, CreatedAt: w.namespace(name).CreatedAt})
}

// largestNamespace makes the largest events that a namespace can have.
func largestNamespace(w *world, long func(int) string) {
	name := events.Namespace(strings.Repeat("n", events.MaxNamespaceLen))
	full := events.NamespaceInfo{Paused: true, Node: strings.Repeat("n", events.MaxNameLen), Limits: events.NamespaceLimits{
		MaxQueued: events.MaxMaxQueued, MaxLogBytes: events.MaxBound, MaxDocumentBytes: events.MaxBound, RequestsPerSecond: events.MaxRequestsRate,
	}}
	w.do(SetNamespace{Name: name, Source: events.SourceAPI, Change: full.Change()})
	w.removeNamespace(name, long(events.MaxNameLen))
}

// namespaceCommand adds, changes and removes namespaces, rightly and amiss.
func (s *sim) namespaceCommand() Command {
	name := events.Namespace(pick(s, "namespace", "a", "a", "a", "b", "b", "default", "No Name"))
	switch pick(s, "namespace command", "set", "set", "set", "set", "release", "remove", "forget") {
	case "forget":
		c := ForgetNamespace{Name: name, CreatedAt: s.now}
		if n, ok := s.live.Namespace(name); ok && !s.chance("another", 20) {
			c.CreatedAt = n.CreatedAt
		}
		return c
	case "release":
		return ReleaseNamespace{Name: name}
	case "remove":
		c := RemoveNamespace{Name: name, By: pick(s, "by", "", "ops")}
		if s.chance("another", 20) {
			c.CreatedAt = s.now
		}
		return c
	}
	c := SetNamespace{Name: name, Source: pick(s, "source", events.SourceAPI, events.SourceAPI, events.SourceFile, ""), Existing: s.chance("existing", 30)}
	c.Change = events.NamespaceChange{
		Paused: pick(s, "paused", nil, new(true), new(false)),
		Node:   pick(s, "node", nil, nil, new(""), new("node-1"), new("\xff")),
	}
	c.Change.Limits.MaxQueued = pick(s, "max queued", nil, nil, new(0), new(5), new(-1))
	c.Change.Limits.MaxLogBytes = pick(s, "max log", nil, nil, new(int64(0)), new(int64(1<<20)), new(int64(1)))
	return c
}

// namespaceChanged holds what is always so: a namespace keeps the time at which it was
// added, and the default one is none of them.
func (s *sim) namespaceChanged(b events.Body) {
	if s.spaces == nil {
		s.spaces = map[events.Namespace]events.NamespaceInfo{}
	}
	switch b := b.(type) {
	case *events.NamespaceSet:
		was, is := s.spaces[b.Namespace.Name]
		if now := b.Namespace; is && !now.CreatedAt.Equal(was.CreatedAt) || is && reflect.DeepEqual(was, now) || now.Name == events.DefaultNamespace || now.CreatedAt.IsZero() {
			s.t.Fatalf("%+v is set to %+v", was, now)
		}
		s.spaces[b.Namespace.Name] = b.Namespace
	case *events.NamespaceRemoved:
		if was, is := s.spaces[b.Name]; !is || was.Source == events.SourceFile {
			s.t.Fatalf("%+v is removed", was)
		}
		delete(s.spaces, b.Name)
	}
}

func (w *world) namespace(name events.Namespace) events.NamespaceInfo {
	w.t.Helper()
	n, ok := w.s.Namespace(name)
	if !ok {
		w.t.Fatalf("there is no namespace %s", name)
	}
	return n
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	w.do(SetNamespace{Name: "acme", Source: events.SourceAPI})
	added := w.now.UTC().Round(0)
	if got := w.namespace("acme"); got != (events.NamespaceInfo{Name: "acme", Source: events.SourceAPI, CreatedAt: added}) {
		t.Fatalf("%+v", got)
	}
	w.now = w.now.Add(time.Hour)
	if d := w.do(SetNamespace{Name: "acme", Source: events.SourceAPI}); !d.Repeat || len(d.Events) != 0 {
		t.Fatalf("added again: %+v", d)
	}
	w.do(SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Limits: events.NamespaceLimitsChange{MaxQueued: new(7)}}})
	w.do(SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Paused: new(true), Node: new("n2")}})
	want := events.NamespaceInfo{Name: "acme", Paused: true, Limits: events.NamespaceLimits{MaxQueued: 7}, Node: "n2", Source: events.SourceAPI, CreatedAt: added}
	if got := w.namespace("acme"); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if d := w.do(SetNamespace{Name: "acme", Source: events.SourceAPI, Change: want.Change()}); !d.Repeat {
		t.Fatalf("set to what it is: %+v", d)
	}
	w.do(SetNamespace{Name: "a", Source: events.SourceAPI})
	if got := w.s.Namespaces(); len(got) != 2 || got[0].Name != "a" || got[1] != want {
		t.Fatalf("%+v", got)
	}
	w.refused(events.CodeWrongState, RemoveNamespace{Name: "acme", CreatedAt: w.now})
	w.refused(events.CodeWrongState, ForgetNamespace{Name: "acme", CreatedAt: added})
	w.do(RemoveNamespace{Name: "acme", By: "ops", CreatedAt: added})
	want.Removing, want.RemovedBy = true, "ops"
	if got := w.namespace("acme"); got != want {
		t.Fatalf("while it is removed: %+v", got)
	}
	if d := w.do(RemoveNamespace{Name: "acme"}); !d.Repeat {
		t.Fatalf("removed again: %+v", d)
	}
	w.refused(events.CodeWrongState, SetNamespace{Name: "acme", Source: events.SourceAPI})
	if d := w.do(ForgetNamespace{Name: "acme", CreatedAt: w.now}); !d.Repeat {
		t.Fatalf("another one forgotten: %+v", d)
	}
	w.do(ForgetNamespace{Name: "acme", CreatedAt: added})
	w.refused(events.CodeNotFound, RemoveNamespace{Name: "acme"})
	w.do(SetNamespace{Name: "acme", Source: events.SourceAPI})
	if got := w.namespace("acme"); !got.CreatedAt.Equal(w.now) || got.Paused || got.Limits != (events.NamespaceLimits{}) {
		t.Fatalf("added anew: %+v", got)
	}
	w.readBack()
}

// The changes say that the list of namespaces is another, and what it is after a cut.
func TestChangesTellOfNamespaces(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	w.s.TakeChanges()
	for i, c := range []struct {
		cmd  Command
		want bool
	}{
		{SetNamespace{Name: "acme", Source: events.SourceAPI}, true}, {Define{Type: "email"}, false}, {DrainWorker{Worker: "w"}, false},
		{SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Node: new("n1")}}, true}, {RemoveNamespace{Name: "acme"}, true},
	} {
		w.do(c.cmd)
		if got := w.s.TakeChanges().Namespaces(); got != c.want {
			t.Errorf("%d: %+v: %t", i, c.cmd, got)
		}
	}
}

// What is left of a log that has been cut has the namespaces, those changed during the round
// among them.
func TestNamespacesOutliveACut(t *testing.T) {
	w := newWorld(t)
	w.do(Own{Owner: "o"})
	for _, name := range []events.Namespace{"kept", "changed", "removed", "removed-before"} {
		w.do(SetNamespace{Name: name, Source: events.SourceAPI})
	}
	w.removeNamespace("removed-before", "")
	w.do(BeginCut{})
	w.do(SetNamespace{Name: "changed", Source: events.SourceAPI, Change: events.NamespaceChange{Node: new("n2")}})
	w.removeNamespace("removed", "")
	w.do(SetNamespace{Name: "added", Source: events.SourceAPI})
	w.endRound()
	if got := w.s.Namespaces(); len(got) != 3 || got[1].Node != "n2" {
		t.Fatalf("%+v", got)
	}
}

func TestTheFileOwnsItsNamespaces(t *testing.T) {
	w := newWorld(t)
	w.do(SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Node: new("n3")}})
	w.do(SetNamespace{Name: "acme", Source: events.SourceFile, Change: events.NamespaceChange{Node: new("n3")}}) // takes it over
	if d := w.do(SetNamespace{Name: "acme", Source: events.SourceFile}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	if d := w.do(SetNamespace{Name: "acme", Source: events.SourceAPI}); !d.Repeat || w.namespace("acme").Source != events.SourceFile {
		t.Fatalf("%+v", d)
	}
	w.refused(events.CodeSetInFile, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Paused: new(true)}})
	w.refused(events.CodeSetInFile, RemoveNamespace{Name: "acme"})
	w.do(ReleaseNamespace{Name: "acme"})
	if d := w.do(ReleaseNamespace{Name: "acme"}); !d.Repeat {
		t.Fatalf("%+v", d)
	}
	if got := w.namespace("acme"); got.Source != events.SourceAPI || got.Node != "n3" {
		t.Fatalf("%+v", got)
	}
	w.removeNamespace("acme", "")
	w.refused(events.CodeNotFound, ReleaseNamespace{Name: "acme"})
}

func TestRefusedNamespaces(t *testing.T) {
	long := strings.Repeat("x", events.MaxNameLen+1)
	limits := func(edit func(*events.NamespaceLimitsChange)) events.NamespaceChange {
		var c events.NamespaceChange
		edit(&c.Limits)
		return c
	}
	for name, c := range map[string]struct {
		code events.Code
		cmd  Command
	}{
		"no name":        {events.CodeBadRequest, SetNamespace{Source: events.SourceAPI}},
		"bad name":       {events.CodeBadRequest, SetNamespace{Name: "No Name", Source: events.SourceAPI}},
		"default":        {events.CodeBadRequest, SetNamespace{Name: "default", Source: events.SourceAPI}},
		"remove default": {events.CodeBadRequest, RemoveNamespace{Name: "default"}},
		"no source":      {events.CodeBadRequest, SetNamespace{Name: "acme"}},
		"other source":   {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceDefault}},
		"not there":      {events.CodeNotFound, SetNamespace{Name: "acme", Source: events.SourceAPI, Existing: true}},
		"long node":      {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Node: &long}}},
		"strange node":   {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: events.NamespaceChange{Node: new("a\nb")}}},
		"by":             {events.CodeTooLarge, RemoveNamespace{Name: "acme", By: long}},
		"max_queued":     {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: limits(func(l *events.NamespaceLimitsChange) { l.MaxQueued = new(-1) })}},
		"max_log_bytes":  {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: limits(func(l *events.NamespaceLimitsChange) { l.MaxLogBytes = new(int64(1000)) })}},
		"max_documents":  {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: limits(func(l *events.NamespaceLimitsChange) { l.MaxDocumentBytes = new(int64(1 << 51)) })}},
		"requests":       {events.CodeBadRequest, SetNamespace{Name: "acme", Source: events.SourceAPI, Change: limits(func(l *events.NamespaceLimitsChange) { l.RequestsPerSecond = new(-5) })}},
	} {
		t.Run(name, func(t *testing.T) { newWorld(t).refused(c.code, c.cmd) })
	}
}

func TestNamespacesAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range events.MaxNamespaces {
		w.do(SetNamespace{Name: events.Namespace(fmt.Sprintf("n%d", i)), Source: events.SourceAPI})
	}
	w.refused(events.CodeTooLarge, SetNamespace{Name: "more", Source: events.SourceAPI})
	w.removeNamespace("n7", "")
	w.do(SetNamespace{Name: "more", Source: events.SourceAPI})
}

func TestCorruptNamespaceEvents(t *testing.T) {
	for name, body := range map[string]events.Body{
		"remove what is not there": &events.NamespaceRemoved{Name: "other"},
		"another one of the name":  &events.NamespaceSet{Namespace: events.NamespaceInfo{Name: "acme", CreatedAt: time.Unix(1, 0)}},
	} {
		w := newWorld(t)
		w.do(SetNamespace{Name: "acme", Source: events.SourceAPI})
		if err := w.s.Apply(events.Event{Kind: body.Kind(), Seq: nextFrame(w.s), At: w.now, Body: body}); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	for _, ev := range []events.Event{
		{Kind: events.KindNamespaceRemoved, Body: &events.NamespaceRemoved{Name: "default"}}, {Kind: events.KindNamespaceRemoved, Type: "email", Body: &events.NamespaceRemoved{Name: "acme"}},
		{Kind: events.KindNamespaceSet, Body: &events.NamespaceSet{}},
	} {
		if ev.At = time.Unix(1, 0); ev.Check() == nil {
			t.Errorf("%+v passes", ev)
		}
	}
}
