package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/streamwright/streamwright/connect"
)

// docs/operate/CONNECT.md names every flag and variable of a connection, and the help of
// a flag says which variable is its.
func TestConnectFlagsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/operate/CONNECT.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(connect.Env.URL, "nats://user:secret@host:1")
	root := &cobra.Command{}
	ConnectFlags(root, new(connect.Settings), new(string), new(string))
	var help strings.Builder
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		help.WriteString(f.Usage + "\n")
		if !strings.Contains(string(data), "`--"+f.Name+"`") {
			t.Errorf("docs/operate/CONNECT.md lacks --%s", f.Name)
		}
	})
	if !strings.Contains(string(data), "`"+NamespaceEnv+"`") || !strings.Contains(help.String(), NamespaceEnv) {
		t.Errorf("docs/operate/CONNECT.md, or the help, lacks %s", NamespaceEnv)
	}
	env := reflect.ValueOf(connect.Env)
	for i := range env.NumField() {
		name := env.Field(i).String()
		if !strings.Contains(string(data), "`"+name+"`") {
			t.Errorf("docs/operate/CONNECT.md lacks %s", name)
		}
		if !strings.Contains(help.String(), name) {
			t.Errorf("no flag's help names %s", name)
		}
	}
	if usage := root.PersistentFlags().FlagUsages(); strings.Contains(usage, "secret") || !strings.Contains(usage, "host:1") {
		t.Errorf("the help shows a password, or not the server: %s", usage)
	}
}
