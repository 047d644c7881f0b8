package secured

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
)

// leaf is a hub with a JetStream domain, and a leaf node with a JetStream of
// its own, in another.
func leaf(t *testing.T, hubUsers, leafUsers string) (hub, edge string) {
	t.Helper()
	h := natsServer(t, "server_name: hub\njetstream { store_dir: STORE, domain: hub }\nleafnodes { listen: 127.0.0.1:-1 }\n"+hubUsers)
	info := h.Addr().String()
	port, local := leafPort(t, h), ""
	if strings.Contains(leafUsers, "accounts") {
		local = ", account: WORK"
	}
	e := natsServer(t, "server_name: edge\njetstream { store_dir: STORE, domain: edge }\nleafnodes { remotes = [ { url: \"nats-leaf://leaf:leaf@127.0.0.1:"+fmt.Sprint(port)+"\""+local+" } ] }\n"+leafUsers)
	eventually(t, "the leaf node is connected ("+info+")", func() bool { return h.NumLeafNodes() == 1 && e.NumLeafNodes() == 1 })
	return h.ClientURL(), e.ClientURL()
}

func leafPort(t *testing.T, s *natsserver.Server) int {
	t.Helper()
	v, err := s.Varz(nil)
	return must(t, v, err).LeafNode.Port
}

// everybody is a list of users who may do everything.
func everybody(names ...string) string {
	return "authorization { users = [\n" + unlimited(names...) + "] }\n"
}

func unlimited(names ...string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "  { user: %q, password: %q }\n", n, n)
	}
	return b.String()
}

// within logs in by passwords.
func within(url string) way {
	return way{url: url,
		login: func(user string) login { return login{[]string{"--user", user}, []string{"NATS_PASSWORD=" + password}} },
		conn:  func(user string) connect.Settings { return connect.Settings{User: user, Password: password} },
	}
}

// atEdge is the same where the engine names the domain that has the streams.
func atEdge(url string) way {
	w := within(url)
	plain := w.login
	w.login = func(user string) login {
		if user == "engine" {
			return plain(user).with("--js-domain", "hub")
		}
		return plain(user)
	}
	return w
}

// domainUsers are the accounts that these flags give.
func domainUsers(t *testing.T, more ...string) string {
	file := hashed(t)
	return accounts(t, func(user string) []string { return []string{"--password-file", user + "=" + file} }, more...)
}

// The engine is in the domain, in an account of the hub; its users are at a leaf
// node outside, each in an account of its own there, which imports from the
// account that is bound to the hub's.
func TestDomainFromOutside(t *testing.T) {
	t.Parallel()
	hub, edge := leaf(t, "accounts { WORK { jetstream: enabled, users = [\n"+unlimited("leaf", "engine")+"] } }\n", domainUsers(t, "--js-domain", "hub"))
	server := login{[]string{"--user", "engine"}, []string{"NATS_PASSWORD=engine"}}.begin(t, "engine", "serve", "--nats-url", hub, "--http", "off", "--dir", t.TempDir())
	server.says("engine ready")
	visit(t, atEdge(edge))
	server.end()
}

// The engine itself is outside, too, and so are its users.
func TestDomainOfTheEngine(t *testing.T) {
	t.Parallel()
	_, edge := leaf(t, "accounts { WORK { jetstream: enabled, users = [\n"+unlimited("leaf")+"] } }\n", domainUsers(t, "--js-domain", "hub"))
	tour(t, atEdge(edge))
}

// Users on a server with a domain need not know of it: their own accounts
// import the streams' API under the engine's prefix.
func TestDomainFromWithin(t *testing.T) {
	t.Parallel()
	s := natsServer(t, "jetstream { store_dir: STORE, domain: hub }\n"+domainUsers(t))
	tour(t, within(s.ClientURL()))
}

// An engine outside of the domain learns of an expired lease from the server's
// advisory, which the domain's own stream captures. (The sweep, which would find
// it too, comes later than this test waits.) It writes its buckets there, and
// hears at the leaf node that somebody has deleted a stream.
func TestDomainLeases(t *testing.T) {
	t.Parallel()
	_, edge := leaf(t, everybody("leaf"), everybody("all"))
	as := login{[]string{"--user", "all", "--js-domain", "hub", "--server", edge}, []string{"NATS_PASSWORD=all"}}
	config := write(t, t.TempDir()+"/engine.toml", "[server]\nhttp = \"off\"\nnats_url = \""+edge+"\"\n[connect]\nuser = \"all\"\njs_domain = \"hub\"\n[defaults]\nlease = \"1s\"\nbackoff = {initial = \"10ms\", max = \"20ms\"}\n")
	server := login{nil, as.env}.begin(t, "engine", "serve", "--config", config, "--dir", t.TempDir())
	server.says("engine ready")
	lost := as.begin(t, "engine", "work", "hang", "--", "sh", "-c", "echo begun >&2; exec sleep 1000")
	lost.says("waits for")
	tail := as.begin(t, "engine", "tail", "--json", "--from-seq", "1")
	id := itemID.FindString(as.run(t, "submit", "hang", "{}").wants(t, 0).out)
	eventually(t, "it runs", func() bool { return strings.Contains(as.run(t, "show", id).out, "running") })
	if err := lost.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	tail.says("lease_expired")
	as.run(t, "submit", "later", "{}", "--dedup-key", "k").wants(t, 0)
	nc, err := nats.Connect(edge, nats.UserInfo("all", "all"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), "work_dedup")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the bucket has the dedup key", func() bool {
		keys, err := kv.Keys(t.Context())
		return err == nil && slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "later.") })
	})
	deleted, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.DELETED.KV_work_dedup")
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteKeyValue(t.Context(), "work_dedup"); err != nil {
		t.Fatal(err)
	}
	if _, err := deleted.NextMsg(patience); err != nil {
		t.Errorf("the advisory of a deletion in the domain: %v", err)
	}
	server.end()
}
