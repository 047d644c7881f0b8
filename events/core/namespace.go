package core

import (
	"time"

	"github.com/streamwright/streamwright/events"
)

// SetNamespace adds a namespace, or changes one. What Change leaves out stays as it is, or
// is the default of a new one.
type SetNamespace struct {
	Name     events.Namespace
	Source   string // file, api
	Change   events.NamespaceChange
	Existing bool // refuse a name that is not there, in place of adding it
}

// decide adds or changes a namespace. One that engine.toml sets is the file's alone.
func (c SetNamespace) decide(d *decider) (Decision, error) {
	next := events.NamespaceInfo{Name: c.Name, CreatedAt: d.now}
	cur := d.state.namespaces.get(string(c.Name))
	if cur != nil {
		next = *cur
	}
	next = c.Change.Apply(next)
	next.Source = c.Source
	switch err := next.Validate(); {
	case err != nil:
		return Decision{}, err
	case cur == nil && c.Existing:
		return Decision{}, events.NoNamespace(c.Name)
	case cur != nil && cur.Removing:
		return Decision{}, events.Refuse(events.CodeWrongState, "namespace %s is being removed: wait until it is off the list, or choose another name", c.Name)
	case cur == nil && d.state.namespaces.len() >= events.MaxNamespaces:
		return Decision{}, events.Refuse(events.CodeTooLarge, "namespace %s would be one too many: an engine has at most %d; remove one that is no longer needed", c.Name, events.MaxNamespaces)
	case cur != nil && *cur == next:
		return Decision{Repeat: true}, nil
	case cur != nil && cur.Source == events.SourceFile && c.Source == events.SourceAPI:
		if next.Source = events.SourceFile; *cur == next {
			return Decision{Repeat: true}, nil
		}
		return Decision{}, namespaceInFile(c.Name)
	}
	return Decision{Events: []events.Event{d.namespaceSet(next)}}, nil
}

func (d *decider) namespaceSet(n events.NamespaceInfo) events.Event {
	n.CreatedAt = n.CreatedAt.UTC().Round(0)
	return d.typeEvent("", &events.NamespaceSet{Namespace: n})
}

func namespaceInFile(name events.Namespace) error {
	return events.Refuse(events.CodeSetInFile, "engine.toml sets the namespace %s: change it there and restart the engine", name)
}

// ReleaseNamespace makes a namespace that engine.toml no longer has one that the API may
// change. It is never removed for that: its data would go with it.
type ReleaseNamespace struct{ Name events.Namespace }

func (c ReleaseNamespace) decide(d *decider) (Decision, error) {
	cur := d.state.namespaces.get(string(c.Name))
	switch {
	case cur == nil:
		return Decision{}, events.NoNamespace(c.Name)
	case cur.Source != events.SourceFile:
		return Decision{Repeat: true}, nil
	}
	next := *cur
	next.Source = events.SourceAPI
	return Decision{Events: []events.Event{d.namespaceSet(next)}}, nil
}

// RemoveNamespace begins to remove a namespace: from then on it is not changed any more, and
// whoever holds its data destroys it.
type RemoveNamespace struct {
	Name events.Namespace
	By   string // who asks, at most 256 bytes
	// CreatedAt, if set, is that of the namespace which is meant: another one of the name,
	// added since, is refused.
	CreatedAt time.Time
}

func (c RemoveNamespace) decide(d *decider) (Decision, error) {
	if err := events.CheckOtherNamespace(c.Name); err != nil {
		return Decision{}, err
	}
	if err := checkNote("", c.By); err != nil {
		return Decision{}, err
	}
	cur := d.state.namespaces.get(string(c.Name))
	switch {
	case cur == nil:
		return Decision{}, events.NoNamespace(c.Name)
	case cur.MayRemove() != nil:
		return Decision{}, cur.MayRemove()
	case !c.CreatedAt.IsZero() && !c.CreatedAt.Equal(cur.CreatedAt):
		return Decision{}, events.Refuse(events.CodeWrongState, "namespace %s was removed and added again meanwhile: look at it, and ask again", c.Name)
	case cur.Removing:
		return Decision{Repeat: true}, nil
	}
	next := *cur
	next.Removing, next.RemovedBy = true, c.By
	return Decision{Events: []events.Event{d.namespaceSet(next)}}, nil
}

// ForgetNamespace takes a namespace that is being removed off the list, once what it held is
// destroyed.
type ForgetNamespace struct {
	Name      events.Namespace
	CreatedAt time.Time
}

func (c ForgetNamespace) decide(d *decider) (Decision, error) {
	cur := d.state.namespaces.get(string(c.Name))
	switch {
	case cur == nil || !c.CreatedAt.Equal(cur.CreatedAt):
		return Decision{Repeat: true}, nil
	case !cur.Removing:
		return Decision{}, events.Refuse(events.CodeWrongState, "namespace %s is not being removed", c.Name)
	}
	return Decision{Events: []events.Event{d.typeEvent("", &events.NamespaceRemoved{Name: c.Name, By: cur.RemovedBy})}}, nil
}

func applyNamespaceSet(a *applier, b *events.NamespaceSet) error {
	cur := a.namespaces.get(string(b.Namespace.Name))
	switch {
	case cur == nil && a.namespaces.len() >= events.MaxNamespaces:
		return a.corrupt("there are %d namespaces already", events.MaxNamespaces)
	case cur != nil && !cur.CreatedAt.Equal(b.Namespace.CreatedAt):
		return a.corrupt("namespace %s was added at another time", b.Namespace.Name)
	}
	a.namespaces.set(string(b.Namespace.Name), b.Namespace)
	return nil
}

func applyNamespaceRemoved(a *applier, b *events.NamespaceRemoved) error {
	if a.namespaces.get(string(b.Name)) == nil {
		return a.corrupt("there is no namespace %s", b.Name)
	}
	a.namespaces.remove(string(b.Name))
	return nil
}

// Namespace returns the namespace of that name, or false if there is none. The default one
// is not among them.
func (s *State) Namespace(name events.Namespace) (events.NamespaceInfo, bool) {
	return s.namespaces.value(string(name))
}

// Namespaces lists the namespaces by name, without the default one.
func (s *State) Namespaces() []events.NamespaceInfo {
	list := make([]events.NamespaceInfo, 0, s.namespaces.len())
	for _, name := range s.namespaces.keys() {
		list = append(list, *s.namespaces.get(name))
	}
	return list
}

// Namespaces reports whether the list of namespaces has changed.
func (c *Changes) Namespaces() bool {
	for i := range c.Records {
		if c.Records[i].Kind == events.RecordNamespace {
			return true
		}
	}
	return false
}
