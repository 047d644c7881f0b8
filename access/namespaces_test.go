package access

import (
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// of reports whether a subject of the engine's account has names of a namespace, and of no
// other.
func of(ns events.Namespace, subject string) bool {
	own, others := wire.Default.Namespace(ns).Prefix, []string{"work", "work-acme", "work-beta"}
	mark := func(prefix string) bool {
		stream := strings.ToUpper(prefix)
		for _, token := range strings.Split(subject, ".") {
			for _, name := range []string{token, strings.TrimPrefix(token, "OBJ_"), strings.TrimPrefix(token, "KV_")} {
				if name == prefix || strings.HasPrefix(name, prefix+"_") || strings.HasPrefix(name, stream+"_") {
					return true
				}
			}
		}
		return false
	}
	return !slices.ContainsFunc(others, func(p string) bool { return mark(p) != (p == own) })
}

// A user's rights are in the namespaces where it has roles, and nothing else: what it
// imports for one is what another user imports for default, with other names.
func TestRightsAreInTheNamespacesOfTheRoles(t *testing.T) {
	namespaces := []events.Namespace{"acme", "beta"}
	for _, roles := range []Roles{RolesOf(Submit), RolesOf(Work), RolesOf(Read), RolesOf(Operate), All} {
		grant := func(m Memberships) []Import {
			return Grant{Names: wire.Default, User: "u", Roles: m, Namespaces: namespaces}.Imports()
		}
		inDefault := grant(InDefault(roles))
		var all []Import
		for _, ns := range append(namespaces, events.DefaultNamespace) {
			list := grant(Memberships{}.With(ns, roles))
			if len(list) != len(inDefault) {
				t.Errorf("%s in %s: %d imports, %d in default", roles, ns, len(list), len(inDefault))
			}
			for _, i := range list {
				if !of(ns, i.Subject) || i.Local != i.Subject && i.Local != strings.Replace(i.Subject, "$JS.API.", "$JS.work.API.", 1) {
					t.Errorf("%s in %s imports %s as %s", roles, ns, i.Subject, i.Local)
				}
			}
			all = append(all, list...)
		}
		slices.SortFunc(all, Import.compare)
		got := slices.DeleteFunc(grant(Everywhere(roles)), func(i Import) bool { // what takes roles in every namespace
			return slices.ContainsFunc(wire.Endpoints(), func(e wire.Endpoint) bool { return e.Everywhere && strings.HasSuffix(i.Subject, ".api."+e.Name) })
		})
		if !slices.Equal(got, all) {
			t.Errorf("%s in every namespace: %d imports, want the %d of each", roles, len(got), len(all))
		}
	}
	publisher := Grant{Names: wire.Default, User: "u", Roles: mustParse(t, "acme/submit,beta/read"), PublishOnly: true}
	if p := publisher.Permissions(); !slices.Equal(p.Publish, []string{"work-acme.submit.*"}) || slices.Contains(p.Subscribe, "work-beta.event.>") {
		t.Errorf("publishes alone: %+v", p)
	}
}

// The engine has in each namespace what it has in default, and may delete what is there.
func TestTheEngineHasEveryNamespace(t *testing.T) {
	g := EngineGrant{Names: wire.Default, Partitions: 1, User: "engine"}
	alone := g.Permissions()
	g.Namespaces = []events.Namespace{"acme"}
	both := g.Permissions()
	renamed := strings.NewReplacer("work.", "work-acme.", "work_", "work-acme_", "WORK_", "WORK-ACME_")
	for _, lists := range [][2][]string{{alone.Publish, both.Publish}, {alone.Subscribe, both.Subscribe}} {
		for _, s := range lists[0] {
			if !slices.Contains(lists[1], s) || !slices.Contains(lists[1], renamed.Replace(s)) {
				t.Errorf("it lacks %s or %s", s, renamed.Replace(s))
			}
		}
	}
	for _, s := range []string{"WORK-ACME_EVENTS_0", "WORK-ACME_LOGS", "OBJ_work-acme_blobs", "KV_work-acme_dedup", "WORK-ACME_INTAKE"} {
		if !slices.Contains(both.Publish, "$JS.API.STREAM.DELETE."+s) {
			t.Errorf("it may not delete %s", s)
		}
	}
	if slices.Contains(both.Publish, "$JS.API.STREAM.DELETE.WORK_EVENTS_0") {
		t.Error("it may delete the log of default")
	}
}

// Nobody's account is in the way of another's: an export is for those whose roles are in
// its namespace.
func TestExportsOfNamespaces(t *testing.T) {
	grants := []Grant{
		{Names: wire.Default, User: "a", Roles: mustParse(t, "acme/submit")},
		{Names: wire.Default, User: "b", Roles: mustParse(t, "submit")},
		{Names: wire.Default, User: "all", Roles: mustParse(t, "*/submit"), Namespaces: []events.Namespace{"acme"}},
	}
	want := map[string][]string{"work.submit.*": {"WORK_all", "WORK_b"}, "work-acme.submit.*": {"WORK_a", "WORK_all"}}
	for _, e := range Exports(grants) {
		if w, ok := want[e.Subject]; ok && !slices.Equal(e.Accounts, w) {
			t.Errorf("%s is for %q", e.Subject, e.Accounts)
		}
		delete(want, e.Subject)
	}
	if len(want) > 0 {
		t.Errorf("not exported: %v", want)
	}
}

// Where the engine is alone in its account, patterns stand for the subjects of all namespaces:
// of the account's exports, and of the imports of a user with roles in every one. They cover
// what the lists cover, each subject once.
func TestPatternsForAllNamespaces(t *testing.T) {
	namespaces := []events.Namespace{"acme", "beta"}
	matches := func(pattern, subject string) bool {
		p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
		return len(p) == len(s) && slices.EqualFunc(p, s, func(w, token string) bool { return w == "*" || w == token })
	}
	for _, words := range []string{"read", "*/read", "*/submit,*/work,*/operate", "*/submit,acme/work,acme/submit,read", "acme/read,beta/work"} {
		exact := Grant{Names: wire.Default, User: "u", Roles: mustParse(t, words), Namespaces: namespaces}
		wide := exact
		wide.Alone = true
		covered := func(list []Import, i Import) (times int) {
			for _, p := range list {
				if p.Flow == i.Flow && (p.Subject == i.Subject || matches(p.Subject, i.Subject)) {
					times++
				}
			}
			return times
		}
		for _, i := range exact.Imports() {
			if n := covered(wide.Imports(), i); n != 1 {
				t.Errorf("%s: %s is imported %d times: %+v", words, i.Subject, n, wide.Imports())
			}
		}
		for _, i := range wide.Imports() {
			if !strings.HasPrefix(i.Subject, "*.") && !slices.Contains(exact.Imports(), i) {
				t.Errorf("%s: more than the lists: %s", words, i.Subject)
			}
			if prefix, _, _ := strings.Cut(i.Subject, "."); prefix == "*" && !strings.Contains(words, "*/") {
				t.Errorf("%s: a pattern for all namespaces: %s", words, i.Subject)
			}
			exported := slices.ContainsFunc(Exports([]Grant{wide}), func(e Export) bool {
				return e.Flow == i.Flow && (e.Subject == i.Subject || matches(e.Subject, i.Subject))
			})
			if !exported {
				t.Errorf("%s: %s is not exported", words, i.Subject)
			}
		}
	}
	// The number of exports does not grow with that of the namespaces.
	count := func(namespaces ...events.Namespace) int {
		return len(Exports([]Grant{{Names: wire.Default, User: "u", Roles: Everywhere(All), Namespaces: namespaces, Alone: true}}))
	}
	if one, three := count("acme"), count("acme", "beta", "gamma"); one != three {
		t.Errorf("%d exports for one namespace, %d for three", one, three)
	}
}

// A mirror has what it takes to copy the log of its namespace, and nothing of another.
func TestAMirrorHasOneNamespace(t *testing.T) {
	for ns, prefix := range map[events.Namespace]string{events.DefaultNamespace: "work", "acme": "work-acme"} {
		g := Grant{Names: wire.Default.Namespace(ns), User: "lab", Mirror: "lab", Namespaces: []events.Namespace{"acme", "beta"}, Alone: true}
		var got []string
		for _, i := range g.Imports() {
			if !of(ns, i.Subject) {
				t.Errorf("the mirror of %s imports %s", ns, i.Subject)
			}
			got = append(got, i.Subject)
		}
		stream := strings.ToUpper(prefix)
		want := []string{"$JS.FC." + stream + "_EVENTS_0.>", "$JS.FC." + stream + "_LOGS.>", prefix + ".mirror.ask.lab", prefix + ".mirror.feed.lab.>"}
		if !slices.Equal(got, want) {
			t.Errorf("the mirror of %s imports %q", ns, got)
		}
		for _, e := range Exports([]Grant{g}) {
			if !slices.Contains(want, e.Subject) || !slices.Equal(e.Accounts, []string{"WORK_lab"}) {
				t.Errorf("%+v", e)
			}
		}
	}
}
