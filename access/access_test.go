package access

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

func TestRoles(t *testing.T) {
	set, err := ParseRoles([]string{"read", " submit"})
	if err != nil || set != RolesOf(Submit, Read) || set.String() != "submit,read" {
		t.Errorf("got %s, %v", set, err)
	}
	for _, bad := range [][]string{nil, {"root"}, {"read", ""}, {"Read"}} {
		if _, err := ParseRoles(bad); err == nil {
			t.Errorf("%q are roles", bad)
		}
	}
	if RolesOf(Submit).Has(RolesOf(Work, Read)) || !All.Has(RolesOf(Operate)) {
		t.Error("Has is wrong")
	}
}

// An endpoint that is not known needs the most.
func TestUnknownEndpointsAreTheOperators(t *testing.T) {
	if Needs("brand_new") != RolesOf(Operate) {
		t.Errorf("needs %s", Needs("brand_new"))
	}
	for _, e := range operated {
		if _, ok := needs[e]; ok {
			t.Errorf("%s stands in both lists", e)
		}
	}
}

func TestInboxPrefix(t *testing.T) {
	if got := InboxPrefix("a-B_9"); got != "_INBOX_a-B_9" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"", "a.b", "*", "a>", ">", "a b", "_a", strings.Repeat("a", MaxUserLen+1)} {
		if got := InboxPrefix(bad); got != "" {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LocalHost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.org:1": false, "localhost.example.org:1": false, "off": false,
	} {
		if IsLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}

// A user's permissions are the union of its roles', and each role's grow with
// nothing but what it is for.
func TestPermissionsAreOfTheRoles(t *testing.T) {
	grant := func(r ...Role) Permissions {
		return Grant{Names: wire.Default, Partitions: 2, User: "u", Roles: RolesOf(r...)}.Permissions()
	}
	union := grant(Submit, Work, Read, Operate)
	var pub, sub []string
	for _, r := range []Role{Submit, Work, Read, Operate} {
		p := grant(r)
		pub, sub = append(pub, p.Publish...), append(sub, p.Subscribe...)
		if p.Responses != (r == Work) {
			t.Errorf("%s: responses %v", r, p.Responses)
		}
		if !slices.Contains(p.Subscribe, "_INBOX_u.>") {
			t.Errorf("%s has no inbox: %q", r, p.Subscribe)
		}
	}
	slices.Sort(pub)
	slices.Sort(sub)
	if !reflect.DeepEqual(union, Permissions{Publish: slices.Compact(pub), Subscribe: slices.Compact(sub), Responses: true}) {
		t.Errorf("all roles together: %+v", union)
	}
	if p := grant(Read); !slices.Contains(p.Publish, "$JS.API.CONSUMER.CREATE.WORK_EVENTS_1.>") {
		t.Error("the second partition is left out")
	}
	if p := grant(); len(p.Publish) != 0 {
		t.Errorf("no role: %q", p.Publish)
	}
}

// No role's permissions reach what only the engine may write.
func TestNobodyWritesWhatIsTheEngines(t *testing.T) {
	p := Grant{Names: wire.WithPrefix("acme"), Partitions: 1, User: "u", Roles: All}.Permissions()
	for _, s := range p.Publish {
		for _, prefix := range []string{"acme.event.", "acme.intake.", "acme.run.", "acme.control.", "acme.probe.", "$KV.", "$JS.API.STREAM.CREATE", "$JS.API.STREAM.UPDATE",
			"$JS.API.STREAM.DELETE", "$JS.API.STREAM.PURGE", "$JS.API.STREAM.MSG.DELETE", "$JS.API.CONSUMER.CREATE.ACME_DISPATCH", "$JS.API.CONSUMER.CREATE.ACME_LOGS", "$JS.EVENT", "_INBOX", "work."} {
			if strings.HasPrefix(s, prefix) {
				t.Errorf("everyone may publish to %s", s)
			}
		}
		if first, _, _ := strings.Cut(s, "."); strings.ContainsAny(first, "*>") {
			t.Errorf("%s begins with a wildcard", s)
		}
	}
	for _, s := range p.Subscribe {
		if strings.HasPrefix(s, "_INBOX") && s != "_INBOX_u.>" || strings.HasPrefix(s, "acme.api") || s == ">" {
			t.Errorf("everyone may subscribe to %s", s)
		}
	}
}

func TestNoDocuments(t *testing.T) {
	p := Grant{Names: wire.Default, Partitions: 1, User: "u", Roles: All, NoDocuments: true}.Permissions()
	if i := slices.IndexFunc(p.Publish, func(s string) bool { return strings.Contains(s, "blobs") }); i >= 0 {
		t.Errorf("it has %s", p.Publish[i])
	}
}
