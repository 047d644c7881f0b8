package secured

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// execServer is a NATS server with a user for the types' commands, and the
// configuration of an engine with a command that logs in as that, or as what
// else the table says.
func execServer(t *testing.T, role, table string) (url, file, config string) {
	t.Helper()
	file = write(t, filepath.Join(t.TempDir(), "password"), password+"\n")
	hash := hashed(t)
	auth := accounts(t, func(user string) []string { return []string{"--password-file", user + "=" + hash} }, "--user", "exec="+role, "--password-file", "exec="+hash)
	url = natsServer(t, "jetstream { store_dir: STORE }\n"+auth).ClientURL()
	host := strings.TrimPrefix(url, "nats://")
	config = write(t, filepath.Join(t.TempDir(), "engine.toml"), fmt.Sprintf(`
[server]
nats_url = "nats://engine:%s@%s"
http = "off"
[connect.exec]
%s
[types.shout]
exec = ["tr", "a-z", "A-Z"]
`, strings.ReplaceAll(password, " ", "%20"), host, strings.ReplaceAll(table, "FILE", file)))
	return url, file, config
}

// The types' commands have a login of their own, which needs no more than a
// worker, although the engine's is in its URL.
func TestExecHasItsOwnLogin(t *testing.T) {
	url, file, config := execServer(t, "work", "user = \"exec\"\npassword_file = \"FILE\"")
	server := login{}.begin(t, "engine", "serve", "--config", config, "--dir", t.TempDir())
	server.says("engine ready")
	as := func(user string) login {
		return login{[]string{"--server", url, "--user", user, "--password-file", file}, nil}
	}
	out := as("submit").run(t, "submit", "shout", `"hello"`, "--wait").wants(t, 0, "completed in")
	as("read").run(t, "show", itemID.FindString(out.out+out.errs)).wants(t, 0, "HELLO")
	server.end()
	if strings.Contains(server.log(), strings.ReplaceAll(password, " ", "%20")) {
		t.Errorf("it prints its password:\n%s", server.log())
	}
	if strings.Contains(server.log(), "refuses") {
		t.Errorf("it lacks a permission:\n%s", server.log())
	}
}

// It is that login that counts: what its user may not do, the commands can't.
func TestExecIsBoundByItsLogin(t *testing.T) {
	_, _, config := execServer(t, "read", "user = \"exec\"\npassword_file = \"FILE\"")
	server := login{}.begin(t, "engine", "serve", "--config", config, "--dir", t.TempDir())
	server.says("the NATS server refuses the types' commands what they need")
	server.says("[connect.exec]")
	server.says("work.api.register") // refused after the subscription, which it says first
	server.end()
}

// A login that the server does not know ends the start, and says whose it is.
func TestExecWithAWrongLogin(t *testing.T) {
	_, _, config := execServer(t, "work", "user = \"nobody\"\npassword_file = \"FILE\"")
	login{}.run(t, "serve", "--config", config, "--dir", t.TempDir()).wants(t, 1, "refused the login", "[connect.exec]")
}
