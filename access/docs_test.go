package access

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/wire"
)

// docs/reference/PERMISSIONS.md holds the roles and permissions as the code has them. Run
// with UPDATE_DOCS=1 to write it.
func TestDocsAreCurrent(t *testing.T) {
	const path = "../docs/reference/PERMISSIONS.md"
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
	for _, e := range wire.Endpoints() {
		if by[e.Roles] == nil {
			order = append(order, e.Roles)
		}
		by[e.Roles] = append(by[e.Roles], "`"+e.Name+"`")
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
	for _, role := range []Role{Submit, Work, Read, Operate, 0} {
		g := Grant{Names: wire.Default, User: "NAME", Roles: Everywhere(Roles(role))}
		name := role.String()
		if role == 0 {
			name, g.Roles, g.PublishOnly = "publish", InDefault(RolesOf(Submit)), true
		}
		fmt.Fprintf(&b, "### `%s`\n\n| flow | subject in the user's account | in the engine's, if it differs |\n|---|---|---|\n", name)
		for _, i := range g.Imports() {
			subject := "`" + i.Subject + "`"
			if i.Subject == i.Local {
				subject = ""
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s |\n", flows[i.Flow], i.Local, subject)
		}
		b.WriteString("\n")
	}
	p := EngineGrant{Names: wire.Default, Partitions: 1, User: "engine"}.Permissions()
	fmt.Fprintf(&b, "### The engine itself\n\n```\npublish\n  %s\nsubscribe\n  %s\n```\n", strings.Join(p.Publish, "\n  "), strings.Join(p.Subscribe, "\n  "))
	return b.String()
}

var flows = map[Flow]string{Messages: "hears", Request: "sends", Question: "asks", Long: "asks long", Pull: "pulls"}
