package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// withUsers runs an engine on disk with users, named like their roles, until the test ends. It
// returns the folder, and the URL for a user.
func withUsers(t *testing.T, roles ...string) (dir string, url func(user string) string) {
	t.Helper()
	dir = t.TempDir()
	c := config.Default()
	for _, list := range roles {
		m, err := access.ParseMemberships(strings.Split(list, "+"))
		if err != nil {
			t.Fatal(err)
		}
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: userOf(list), Password: natsPassword, Roles: m})
	}
	e, err := embedded.Start(t.Context(), embedded.Options{Config: c, Dir: dir, NATSListen: "127.0.0.1:0", HTTP: config.Off})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return dir, func(user string) string {
		return strings.Replace(e.URL(), "://", "://"+userOf(user)+":"+strings.ReplaceAll(natsPassword, " ", "%20")+"@", 1)
	}
}

// userOf is the name of the user with some roles.
func userOf(roles string) string {
	return "u-" + strings.NewReplacer("*", "every", "/", "-", "+", "-").Replace(roles)
}

// One screen shows all namespaces; one that does not answer says why, and the others are shown.
func TestStatusOfAllNamespaces(t *testing.T) {
	need.NoReload(t)
	dir, url := withUsers(t, "*/read", "*/submit+*/operate+*/read", "read+acme/read")
	do := func(user, args string) ran {
		t.Helper()
		return engine(t, "", append(strings.Fields(args), "--server", url(user))...)
	}
	const ops = "*/submit+*/operate+*/read"
	if r := do("*/read", "status --all").wants(t, 0, "NAMESPACE", "PROBLEMS"); len(lines(r.out)) != 2 || !strings.HasPrefix(lines(r.out)[1], "default ") {
		t.Errorf("without other namespaces it prints %q", r.out)
	}
	for _, name := range []string{"acme", "beta"} {
		do(ops, "namespace add "+name).wants(t, 0)
		do(ops, "submit ship {} --namespace "+name).wants(t, 0)
	}
	do(ops, "submit ship {} --namespace acme").wants(t, 0)
	do(ops, "namespace pause beta").wants(t, 0)
	r := do("*/read", "status --all").wants(t, 0, "no worker for 1 type", "`engine status --namespace NAME --server ")
	rows := map[string][]string{}
	for _, line := range lines(r.out) {
		f := strings.Fields(line)
		if len(f) > 0 {
			rows[f[0]] = f[1:]
		}
	}
	if acme := rows["acme"]; len(acme) < 5 || acme[0] != "running" || acme[2] != "2" || acme[3] != "0" || acme[4] != "0" {
		t.Errorf("acme is %q in\n%s", acme, r.out)
	}
	if beta := rows["beta"]; len(beta) < 4 || beta[0] != "running," || beta[1] != "paused" || beta[3] != "1" {
		t.Errorf("beta is %q in\n%s", beta, r.out)
	}

	r = do("*/read", "status --all --json").wants(t, 0)
	var all []namespaceStatus
	for _, line := range lines(r.out) {
		var s namespaceStatus
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) != 3 || all[0].Namespace != "default" || all[1].Namespace != "acme" || all[1].Stats.States["queued"] != 2 || !all[2].Paused || all[2].Info.Prefix != "work-beta" {
		t.Errorf("--json prints %s", r.out)
	}

	// Who may not read everywhere is told so; what it may read it can still ask for.
	do("read+acme/read", "status --all").wants(t, 1, "*/read", "forbidden")
	do("read+acme/read", "status --namespace acme").wants(t, 0)
	do("*/read", "status --all --namespace acme").wants(t, 2, "give one of them")
	t.Setenv("WORK_NAMESPACE", "acme") // as other commands about all namespaces
	do("*/read", "status --all").wants(t, 0, "default")
	t.Setenv("WORK_NAMESPACE", "")

	// A namespace that can't start.
	broken := filepath.Join(dir, "namespaces", "gamma")
	if err := os.MkdirAll(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "RESTORE"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do(ops, "namespace add gamma").wants(t, 0)
	need.Eventually(t, "gamma has failed", func() bool {
		return strings.Contains(do("*/read", "namespace show gamma").out, wire.NamespaceFailed)
	})
	r = do("*/read", "status --all").wants(t, 1, "no answer: the namespace gamma has failed", "1 of 4 namespaces did not answer")
	if !strings.Contains(r.out, "\nacme ") || !strings.Contains(r.out, "\nbeta ") {
		t.Errorf("the others are not shown:\n%s", r.out)
	}
	do("*/read", "status --all --json").wants(t, 1, `"error":{"code":"unavailable"`)
}
