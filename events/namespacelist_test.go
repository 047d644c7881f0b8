package events

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNamespaceList(t *testing.T) {
	for text, want := range map[string]string{`[]`: "", `["b","a","b"]`: "a,b", `null`: ""} {
		var l NamespaceList
		if err := json.Unmarshal([]byte(text), &l); err != nil || string(l) != want {
			t.Errorf("%s is %q, %v", text, l, err)
		}
	}
	l, err := ParseNamespaceList(" beta, acme,")
	if err != nil || l != ListNamespaces("acme", "beta") || !l.Has("acme") || l.Has("") || l.Has("be") || NamespaceList("").Has("") {
		t.Errorf("%q, %v", l, err)
	}
	if doc, err := json.Marshal(l); err != nil || string(doc) != `["acme","beta"]` {
		t.Errorf("%s, %v", doc, err)
	}
	for _, bad := range []string{`["a,b"]`, `["A"]`, `[""]`, `"a"`, `[1]`} {
		if err := json.Unmarshal([]byte(bad), &l); err == nil {
			t.Errorf("%s is %q", bad, l)
		}
	}
	if _, err := ParseNamespaceList("a,B"); err == nil {
		t.Error("B is a name")
	}
	n := NamespaceInfo{Name: "acme", Source: SourceAPI, Accept: "acme"}
	if n.Validate() == nil {
		t.Error("it accepts work from itself")
	}
	if n.Accept = NamespaceList(strings.Repeat("a,", MaxAccepted) + "b"); n.Validate() == nil {
		t.Error("it accepts work from too many")
	}
	if n.Accept = "a,b,default"; n.Validate() != nil {
		t.Error(n.Validate())
	}
}
