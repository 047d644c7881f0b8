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
		return Grant{Names: wire.Default, User: "u", Roles: InDefault(RolesOf(r...))}.Permissions()
	}
	union := grant(Submit, Work, Read, Operate)
	var pub, sub []string
	for _, r := range []Role{Submit, Work, Read, Operate} {
		p := grant(r)
		pub, sub = append(pub, p.Publish...), append(sub, p.Subscribe...)
		if !slices.Contains(p.Subscribe, "_INBOX_u.>") || !slices.Contains(p.Subscribe, "_INBOX.>") {
			t.Errorf("%s lacks an inbox: %q", r, p.Subscribe)
		}
	}
	slices.Sort(pub)
	slices.Sort(sub)
	if !reflect.DeepEqual(union, Permissions{Publish: slices.Compact(pub), Subscribe: slices.Compact(sub)}) {
		t.Errorf("all roles together: %+v", union)
	}
	if p := grant(); len(p.Publish) != 0 {
		t.Errorf("no role: %q", p.Publish)
	}
	if p := (Grant{Names: wire.Default, User: "u", Roles: InDefault(RolesOf(Submit)), PublishOnly: true}).Permissions(); !slices.Equal(p.Publish, []string{"work.submit.*"}) {
		t.Errorf("publishes alone: %q", p.Publish)
	}
}

// allImports lists the imports of every role, with another prefix and a domain.
func allImports() []Import {
	return Grant{Names: wire.WithPrefix("acme").In("hub"), User: "u", Roles: InDefault(All)}.Imports()
}

// No role sends to what only the engine may write, and each hears what it is
// for alone.
func TestNobodyWritesWhatIsTheEngines(t *testing.T) {
	for _, i := range allImports() {
		if i.Flow == Messages {
			if !strings.HasPrefix(i.Subject, "acme.event.") && !strings.HasPrefix(i.Subject, "acme.log.") && !strings.HasPrefix(i.Subject, "acme.output.") && !strings.HasPrefix(i.Subject, "$KV.acme_") &&
				!strings.HasPrefix(i.Subject, "acme.control.") && !strings.HasPrefix(i.Subject, "acme.probe.") && !strings.HasPrefix(i.Subject, "acme.run.") {
				t.Errorf("everyone may hear %s", i.Subject)
			}
			continue
		}
		// Whole lists, so that a new subject is thought about here.
		ok := strings.HasPrefix(i.Subject, "acme.api.") && !strings.ContainsAny(i.Subject, "*>")
		switch i.Subject {
		case "acme.submit.*", "acme.log.*.*", "$O.acme_blobs.C.*", "$O.acme_blobs.M.*",
			"$JS.hub.API.STREAM.MSG.GET.OBJ_acme_blobs",
			"$JS.hub.API.STREAM.INFO.OBJ_acme_blobs", "$JS.hub.API.STREAM.MSG.GET.ACME_EVENTS_0", "$JS.hub.API.STREAM.INFO.ACME_EVENTS_0",
			"$JS.hub.API.STREAM.MSG.GET.ACME_INTAKE", "$JS.hub.API.STREAM.INFO.ACME_INTAKE", "$JS.hub.API.STREAM.MSG.GET.ACME_LOGS", "$JS.hub.API.STREAM.INFO.ACME_LOGS", "$JS.hub.API.STREAM.MSG.GET.ACME_OUTPUT", "$JS.hub.API.STREAM.INFO.ACME_OUTPUT",
			"$JS.hub.API.CONSUMER.MSG.NEXT.ACME_DISPATCH.*", "$JS.hub.API.CONSUMER.INFO.ACME_DISPATCH.*", "$JS.ACK.ACME_DISPATCH.>", "$JS.ACK.*.*.ACME_DISPATCH.>":
			ok = true
		}
		if !ok {
			t.Errorf("everyone may send to %s", i.Subject)
		}
	}
}

// Only workers, who acknowledge what they like anyway, may ask what the server
// itself answers with nothing: the reply subject $JS.ACK is not rewritten.
func TestAnEmptyAnswerIsForWorkersAlone(t *testing.T) {
	for _, r := range []Role{Submit, Read, Operate} {
		for _, i := range (Grant{Names: wire.Default, User: "u", Roles: InDefault(RolesOf(r))}).Imports() {
			if i.Flow == Pull || strings.Contains(i.Subject, "CONSUMER") || strings.Contains(i.Subject, "DIRECT") || strings.HasPrefix(i.Subject, "$JS.ACK") {
				t.Errorf("%s may ask %s", r, i.Subject)
			}
		}
	}
}

// The API is local under the domain that is the prefix, wherever the streams are.
func TestTheAPIIsUnderTheDomain(t *testing.T) {
	for _, i := range allImports() {
		if rest, ok := strings.CutPrefix(i.Subject, "$JS.hub.API."); ok && i.Local != "$JS.acme.API."+rest || !ok && i.Local != i.Subject {
			t.Errorf("%s is local as %s", i.Subject, i.Local)
		}
	}
}

// What is stored is an operator's to back up; nobody else reads the streams whole.
func TestOnlyOperatorsReadStreams(t *testing.T) {
	for _, r := range []Role{Submit, Work, Read} {
		for _, i := range (Grant{Names: wire.Default, User: "u", Roles: InDefault(RolesOf(r))}).Imports() {
			if strings.Contains(i.Subject, "STREAM.INFO") || strings.Contains(i.Subject, "STREAM.MSG.GET") && !strings.HasSuffix(i.Subject, "OBJ_work_blobs") {
				t.Errorf("%s may ask %s", r, i.Subject)
			}
		}
	}
}

// An export is for those who import it.
func TestExports(t *testing.T) {
	a := Grant{Names: wire.Default, User: "a", Roles: InDefault(RolesOf(Submit))}
	b := Grant{Names: wire.Default, User: "b", Roles: InDefault(RolesOf(Submit, Work))}
	want := map[string][]string{"work.submit.*": {"WORK_a", "WORK_b"}, "work.api.register": {"WORK_b"}}
	for _, e := range Exports([]Grant{b, a}) {
		if w, ok := want[e.Subject]; ok && !slices.Equal(e.Accounts, w) {
			t.Errorf("%s is for %q", e.Subject, e.Accounts)
		}
		delete(want, e.Subject)
		if strings.HasPrefix(e.Subject, "work.event") {
			t.Errorf("nobody reads, and %s is exported", e.Subject)
		}
	}
	if len(want) > 0 {
		t.Errorf("not exported: %v", want)
	}
}

func TestNoDocuments(t *testing.T) {
	p := Grant{Names: wire.Default, User: "u", Roles: InDefault(All), NoDocuments: true}.Permissions()
	if i := slices.IndexFunc(p.Publish, func(s string) bool { return strings.Contains(s, "blobs") }); i >= 0 {
		t.Errorf("it has %s", p.Publish[i])
	}
}
