package access

import (
	"slices"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func mustParse(t *testing.T, words string) Memberships {
	t.Helper()
	m, err := ParseMemberships(strings.Split(words, ","))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemberships(t *testing.T) {
	for words, want := range map[string]struct {
		text                          string
		inDefault, inAcme, inBeta, un Roles
		named                         string
	}{
		"submit":                             {"submit", RolesOf(Submit), 0, 0, RolesOf(Submit), "default"},
		"acme/work":                          {"acme/work", 0, RolesOf(Work), 0, RolesOf(Work), "acme"},
		"*/read":                             {"*/read", RolesOf(Read), RolesOf(Read), RolesOf(Read), RolesOf(Read), ""},
		"acme/submit, read,acme/work,submit": {"submit,read,acme/submit,acme/work", RolesOf(Submit, Read), RolesOf(Submit, Work), 0, RolesOf(Submit, Work, Read), "default,acme"},
		"a/read,*/read,acme/operate,default/work,read": {"work,*/read,acme/operate", RolesOf(Work, Read), RolesOf(Read, Operate), RolesOf(Read), RolesOf(Work, Read, Operate), "default,acme"},
		"beta/read,0-1/read,acme/read":                 {"0-1/read,acme/read,beta/read", 0, RolesOf(Read), RolesOf(Read), RolesOf(Read), "0-1,acme,beta"},
	} {
		m := mustParse(t, words)
		var named []string
		for _, ns := range m.Named() {
			named = append(named, string(ns))
		}
		if m.String() != want.text || m.In(events.DefaultNamespace) != want.inDefault || m.In("acme") != want.inAcme || m.In("beta") != want.inBeta || m.Union() != want.un || strings.Join(named, ",") != want.named || !m.Any() {
			t.Errorf("%q is %q: %s, %s, %s; %s in %q", words, m, m.In(events.DefaultNamespace), m.In("acme"), m.In("beta"), m.Union(), named)
		}
		if again := mustParse(t, m.String()); again != m {
			t.Errorf("%q is read as %q", m, again)
		}
	}
	if InDefault(RolesOf(Read)) != mustParse(t, "default/read") || Everywhere(All).With("acme", RolesOf(Submit)) != Everywhere(All) || (Memberships{}).Any() || Everywhere(0).Any() {
		t.Error("what means the same is not equal")
	}
	if (Memberships{}).In(events.DefaultNamespace) != 0 || len((Memberships{}).Named()) != 0 {
		t.Error("no membership has roles")
	}
}

func TestAmong(t *testing.T) {
	exist := []events.Namespace{"beta", "acme"}
	for words, want := range map[string][]events.Namespace{
		"read":                {"default"},
		"acme/read":           {"acme"},
		"gone/read,acme/read": {"acme", "gone"},
		"*/read":              {"default", "acme", "beta"},
		"*/read,acme/work":    {"default", "acme", "beta"},
	} {
		if got := mustParse(t, words).Among(exist); !slices.Equal(got, want) {
			t.Errorf("%s is for %q, want %q", words, got, want)
		}
	}
}

func TestMembershipsRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"":                 `unknown role ""`,
		"root":             `unknown role "root": use submit, work, read, operate or approve`,
		"acme/root":        `"acme/root": unknown role "root"`,
		"acme/":            `"acme/": unknown role ""`,
		"/read":            `"/read": "" is no namespace`,
		"Acme/read":        `"Acme" is no namespace: use at most 32 characters`,
		"a*/read":          `"a*" is no namespace`,
		"**/read":          `"**" is no namespace`,
		"*":                `unknown role "*"`,
		"acme/read/submit": `unknown role "read/submit"`,
		"acme/*":           `unknown role "*"`,
		"a.b/read":         `"a.b" is no namespace`,
		"a_b/read":         `"a_b" is no namespace`,
		"read,acme/x":      `unknown role "x"`,
	} {
		if m, err := ParseMemberships(strings.Split(words, ",")); err == nil || !strings.Contains(err.Error(), want) || m.Any() {
			t.Errorf("%q: %v, %q", words, err, m)
		}
	}
	if _, err := ParseMemberships(nil); err == nil || !strings.Contains(err.Error(), "no role given") {
		t.Errorf("none: %v", err)
	}
}
