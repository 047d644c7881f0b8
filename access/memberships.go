package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamwright/streamwright/events"
)

// every stands for all namespaces in the text of Memberships.
const every events.Namespace = "*"

// Memberships are the roles of a user in namespaces. The zero Memberships has none.
//
// Two that mean the same are equal, by ==: the text says nothing twice.
type Memberships struct {
	text string // the roles of default, those in every namespace, and the others by name
}

// InDefault returns roles in the default namespace.
func InDefault(roles Roles) Memberships { return Memberships{}.With(events.DefaultNamespace, roles) }

// Everywhere returns roles in every namespace, those made later too.
func Everywhere(roles Roles) Memberships { return Memberships{}.With(every, roles) }

// ParseMemberships reads a list of roles, which must not be empty: submit is the role in
// the namespace default, acme/submit that in acme, and */submit that in every namespace,
// those made later too.
func ParseMemberships(list []string) (m Memberships, err error) {
	all := map[events.Namespace]Roles{}
	for _, s := range list {
		ns, role, err := parseMembership(strings.TrimSpace(s))
		if err != nil {
			return Memberships{}, err
		}
		all[ns] |= Roles(role)
	}
	if len(all) == 0 {
		return Memberships{}, errors.New("no role given: use some of submit, work, read, operate and approve")
	}
	return membershipsOf(all), nil
}

func parseMembership(s string) (events.Namespace, Role, error) {
	name, role, named := strings.Cut(s, "/")
	if !named {
		r, err := ParseRole(s)
		return events.DefaultNamespace, r, err
	}
	ns, r, err := every, Role(0), error(nil)
	if name != string(every) {
		ns, err = events.ParseNamespace(name)
	}
	if err == nil {
		r, err = ParseRole(role)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%q: %w", s, err)
	}
	return ns, r, nil
}

// membershipsOf spells what is in all, and leaves out what every namespace has.
func membershipsOf(all map[events.Namespace]Roles) Memberships {
	names := slices.SortedFunc(maps.Keys(all), func(a, b events.Namespace) int {
		return strings.Compare(rank(a), rank(b))
	})
	var words []string
	for _, ns := range names {
		roles := all[ns]
		if ns != every {
			roles &^= all[every]
		}
		for _, r := range []Role{Submit, Work, Read, Operate, Approve} {
			if roles.Has(Roles(r)) {
				words = append(words, spell(ns, r))
			}
		}
	}
	return Memberships{strings.Join(words, ",")}
}

// rank orders namespaces: default, every, and the others by name.
func rank(ns events.Namespace) string {
	switch ns {
	case events.DefaultNamespace:
		return ""
	case every:
		return string(every) // before all letters and digits
	}
	return string(ns)
}

func spell(ns events.Namespace, r Role) string {
	if ns == events.DefaultNamespace {
		return r.String()
	}
	return string(ns) + "/" + r.String()
}

// With returns m and more roles in a namespace.
func (m Memberships) With(ns events.Namespace, roles Roles) Memberships {
	all := m.all()
	all[ns] |= roles
	return membershipsOf(all)
}

// all returns the roles by namespace, with those in every namespace under every.
func (m Memberships) all() map[events.Namespace]Roles {
	all := map[events.Namespace]Roles{}
	for ns, role := range m.each {
		all[ns] |= Roles(role)
	}
	return all
}

// each yields what the text says.
func (m Memberships) each(yield func(events.Namespace, Role) bool) {
	if m.text == "" {
		return
	}
	for word := range strings.SplitSeq(m.text, ",") {
		ns, role, named := strings.Cut(word, "/")
		if !named {
			ns, role = string(events.DefaultNamespace), word
		}
		r, _ := ParseRole(role) // the text has no others
		if !yield(events.Namespace(ns), r) {
			return
		}
	}
}

// In returns the roles in one namespace.
func (m Memberships) In(ns events.Namespace) (roles Roles) {
	for at, role := range m.each {
		if at == ns || at == every {
			roles |= Roles(role)
		}
	}
	return roles
}

// Every returns the roles in every namespace.
func (m Memberships) Every() Roles { return m.In(every) }

// Union returns the roles in any namespace.
func (m Memberships) Union() (roles Roles) {
	for _, role := range m.each {
		roles |= Roles(role)
	}
	return roles
}

// Any reports whether there is a role in any namespace.
func (m Memberships) Any() bool { return m.text != "" }

// Named lists the namespaces that are named with a role, default first and the others
// sorted. It leaves out those where there are roles since there are roles in every one.
func (m Memberships) Named() (list []events.Namespace) {
	for ns := range m.each {
		if ns != every {
			list = append(list, ns)
		}
	}
	return slices.Compact(list)
}

// Among returns those of some namespaces in which there is a role, and every one that is
// named; default first and the others sorted. Default is always among them if there are roles in
// every namespace.
func (m Memberships) Among(namespaces []events.Namespace) []events.Namespace {
	list := m.Named()
	if m.Every() != 0 {
		list = slices.Concat(list, []events.Namespace{events.DefaultNamespace}, namespaces)
	}
	slices.SortFunc(list, func(a, b events.Namespace) int { return strings.Compare(rank(a), rank(b)) })
	return slices.Compact(list)
}

// String returns the list that ParseMemberships reads, with commas.
func (m Memberships) String() string { return m.text }

// NoSuchNamespace refuses a request to a namespace that does not exist, or of which its
// maker sees nothing: nobody can tell one from the other.
func NoSuchNamespace(name string) error {
	return events.Refuse(events.CodeNotFound, "there is no namespace %q here, or you have no role in it", events.Clip(name, 2*events.MaxNamespaceLen))
}

// OnlyNamespace refuses requests to other namespaces than the one that a mirror has.
func OnlyNamespace(ns events.Namespace) *events.Error {
	return events.Refuse(events.CodeNotFound, "there is only the namespace %[1]s here: use --namespace %[1]s, or paths below /ns/%[1]s/", ns)
}
