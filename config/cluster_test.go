package config

import (
	"slices"
	"strings"
	"testing"
)

func TestCluster(t *testing.T) {
	c := mustParse(t, `[cluster]
name = "prod"
node = "a"
listen = "10.0.0.1"
peers = ["10.0.0.1:6222", "10.0.0.1", "10.0.0.2:7000", "[::1]"]
tls_cert = "c"
tls_key = "k"
tls_ca = "ca"
secret_file = "s"`).Cluster
	if !c.On() || c.ListenAddress() != "10.0.0.1:6222" || c.AdvertiseAddress() != "" || c.Local() || !c.Secured() || c.StaleReads != AnswerStale {
		t.Errorf("%+v", c)
	}
	if want := []string{"10.0.0.1:6222", "10.0.0.2:7000", "[::1]:6222"}; !slices.Equal(c.PeerAddresses(), want) {
		t.Errorf("peers %q, want %q", c.PeerAddresses(), want)
	}
	over := c.Over(Cluster{Node: "b", Peers: []string{"x"}, Replicas: 5, StaleReads: RefuseStale})
	if over.Name != "prod" || over.Node != "b" || !slices.Equal(over.Peers, []string{"x"}) || over.Replicas != 5 || over.StaleReads != RefuseStale || over.TLSCA != "ca" {
		t.Errorf("over: %+v", over)
	}
}

func TestClusterRefuses(t *testing.T) {
	const good = "[cluster]\nname = \"c\"\nnode = \"a\"\nlisten = \"127.0.0.1:1\"\npeers = [\"127.0.0.1:2\", \"127.0.0.1:3\"]\n"
	mustParse(t, good)
	mustParse(t, strings.Replace(good, "127.0.0.1:1", "localhost", 1))
	for what, tc := range map[string]struct{ text, want string }{
		"no listen":      {strings.Replace(good, "listen = \"127.0.0.1:1\"\n", "", 1), "cluster.listen is missing"},
		"no peers":       {strings.Replace(good, `["127.0.0.1:2", "127.0.0.1:3"]`, "[]", 1), "cluster.peers is missing"},
		"one peer":       {strings.Replace(good, `, "127.0.0.1:3"`, "", 1), "cluster.peers names 1 node"},
		"the peer twice": {strings.Replace(good, "127.0.0.1:3", "127.0.0.1:2", 1), "cluster.peers names 1 node"},
		"a bad node":     {strings.Replace(good, `"a"`, `"node a"`, 1), `cluster.node is "node a"`},
		"a bad name":     {strings.Replace(good, `"c"`, `"A.b"`, 1), `cluster.name is "A.b"`},
		"a bad peer":     {strings.Replace(good, "127.0.0.1:2", "127.0.0.1:x", 1), `cluster.peers has "127.0.0.1:x"`},
		"two replicas":   {good + "replicas = 2", "cluster.replicas is 2: it must be 1, 3 or 5, since 2 copies survive no more than 1"},
		"four replicas":  {good + "replicas = 4", "cluster.replicas is 4"},
		"six replicas":   {good + "replicas = 6", "cluster.replicas is 6"},
		"placement":      {good + `placement = ["ssd"]`, "cluster.placement is for an existing NATS"},
		"reads":          {good + `stale_reads = "maybe"`, `cluster.stale_reads is "maybe": it must be "answer" or "refuse"`},
		"half a TLS":     {good + `tls_cert = "x"`, "cluster.tls_cert and tls_key and tls_ca belong together"},
		"open listen":    {strings.Replace(good, "127.0.0.1:1", "0.0.0.0:1", 1), "cluster reaches beyond this machine"},
		"open peer":      {strings.Replace(good, "127.0.0.1:2", "host.example:2", 1), "cluster reaches beyond this machine"},
		"open advertise": {good + `advertise = "10.0.0.1"`, "cluster reaches beyond this machine"},
		"TLS alone":      {strings.Replace(good, "127.0.0.1:1", "0.0.0.0:1", 1) + "tls_cert = \"x\"\ntls_key = \"x\"\ntls_ca = \"x\"", "cluster reaches beyond this machine"},
		"users":          {good + "[[nats.users]]\nname = \"u\"\npassword = \"0123456789abcdef\"\nroles = [\"read\"]", "cluster.secret_file is missing"},
		"existing NATS":  {good + "[server]\nnats_url = \"nats://127.0.0.1:1\"", "cluster.name is for embedded NATS servers"},
		"context":        {good + "[connect]\ncontext = \"x\"", "cluster.name is for embedded NATS servers"},
		"peers alone":    {"[cluster]\npeers = [\"a\"]", "cluster.peers names nodes, and the cluster has no name"},
		"node alone":     {"[cluster]\nnode = \"a\"", "cluster.node names a node, and the cluster has no name"},
		"replicas alone": {"[cluster]\nreplicas = 3", "cluster.replicas is for several servers"},
	} {
		_, err := Parse("f", []byte(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", what, err, tc.want)
		}
	}
	mustParse(t, "[server]\nnats_url = \"nats://127.0.0.1:1\"\n[cluster]\nnode = \"a\"\nreplicas = 3\nplacement = [\"ssd\"]\nstale_reads = \"refuse\"")
}

// A file may be for all nodes, and the command line says which this is; an engine does
// not start without.
func TestFileForAllNodes(t *testing.T) {
	c := mustParse(t, "[cluster]\nname = \"c\"\nlisten = \"127.0.0.1:1\"\npeers = [\"127.0.0.1:2\", \"127.0.0.1:3\"]\n")
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "cluster.node is missing") {
		t.Errorf("without a node: %v", err)
	}
	c.Cluster = c.Cluster.Over(Cluster{Node: "a"})
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
