package wire_test

import (
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Each namespace has names of its own, in the account and the domain of all.
func TestNamesOfNamespaces(t *testing.T) {
	for _, root := range []wire.Names{wire.Default, wire.WithPrefix("work_2")} {
		acme := root.Namespace("acme")
		if root.Namespace(events.DefaultNamespace) != root || acme.Namespace(events.DefaultNamespace) != root || acme.Namespace("acme") != acme {
			t.Errorf("%q, %q: a namespace's names depend on whose they are made of", root.Prefix, acme.Prefix)
		}
		if root.InNamespace() != events.DefaultNamespace || acme.InNamespace() != "acme" || root.Namespace("team-2").InNamespace() != "team-2" {
			t.Error("names don't know whose they are")
		}
		if root.In("hub").Namespace("acme") != acme.In("hub") {
			t.Error("the domain is lost")
		}
		if acme.Account() != root.Account() || acme.ImportDomain() != root.ImportDomain() || acme.UserAccount("u") != root.UserAccount("u") {
			t.Error("a namespace has an account of its own")
		}
		for _, stream := range []string{root.IntakeStream(), acme.IntakeStream(), "KV_" + root.Bucket("dedup"), "OBJ_" + acme.Bucket("blobs")} {
			if !root.Owns(stream) || !acme.Owns(stream) {
				t.Errorf("%s is nobody's", stream)
			}
		}
		for _, subject := range []string{root.Submit("email"), acme.Submit("email")} {
			if !root.OwnsSubject(subject) || !acme.OwnsSubject(subject) {
				t.Errorf("%s is nobody's", subject)
			}
		}
	}
	for _, other := range []string{"WORKS_INTAKE", "work", "KV_works_dedup", "OBJ_", "X_WORK_INTAKE"} {
		if wire.Default.Owns(other) {
			t.Errorf("%s is the engine's", other)
		}
	}
	acme := wire.Default.Namespace("acme")
	for got, want := range map[string]string{
		acme.Submit("email"): "work-acme.submit.email", acme.EventStream(0): "WORK-ACME_EVENTS_0", acme.Bucket("dedup"): "work-acme_dedup", acme.Account(): "WORK",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseNamespace(t *testing.T) {
	for _, good := range []string{"a", "acme", "team-2", "default"} {
		if got, err := events.ParseNamespace(good); err != nil || string(got) != good {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-", "a_b", "A", "a--b", "a.b", "*", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if _, err := events.ParseNamespace(bad); err == nil {
			t.Errorf("%q is a namespace", bad)
		}
	}
}
