package access

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// docs/SECURITY.md holds the roles and permissions as the code has them. Run
// with UPDATE_DOCS=1 to write it.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../docs/SECURITY.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, string(data), "endpoints", endpointTable())
	want = between(t, want, "permissions", permissionLists())
	if string(data) == want {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatalf("%s is not current: run UPDATE_DOCS=1 go test ./access", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func between(t *testing.T, text, mark, fill string) string {
	t.Helper()
	begin, end := "<!-- begin: "+mark+" -->\n", "<!-- end: "+mark+" -->"
	head, rest, ok := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the document lacks the marks of %s", mark)
	}
	return head + begin + fill + end + tail
}

func endpointTable() string {
	by := map[Roles][]string{}
	var order []Roles
	for _, e := range Endpoints() {
		r := Needs(e)
		if by[r] == nil {
			order = append(order, r)
		}
		by[r] = append(by[r], "`"+e+"`")
	}
	var b strings.Builder
	b.WriteString("| any one of | requests |\n|---|---|\n")
	for _, r := range order {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(r.String(), ",", "`, `"), strings.Join(by[r], ", "))
	}
	return b.String()
}

func permissionLists() string {
	var b strings.Builder
	type list struct {
		name string
		p    Permissions
	}
	g := Grant{Names: wire.Default, Partitions: 1, User: "NAME"}
	var lists []list
	for _, n := range names {
		g.Roles = Roles(n.role)
		lists = append(lists, list{n.name, g.Permissions()})
	}
	lists = append(lists, list{"publish", g.PublishPermissions()}, list{"engine", EngineGrant{Grant: g, Answered: []string{"ANSWERED"}}.Permissions()})
	for _, l := range lists {
		p := l.p
		fmt.Fprintf(&b, "`%s`:\n\n```\npublish\n  %s\nsubscribe\n  %s\n", l.name, strings.Join(p.Publish, "\n  "), strings.Join(p.Subscribe, "\n  "))
		if p.Responses {
			b.WriteString("allow_responses (one answer to what it was asked)\n")
		}
		b.WriteString("```\n\n")
	}
	return b.String()
}
