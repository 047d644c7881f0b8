package config

import "testing"

// Nodes whose files differ in what they decide by have other digests, and those that
// differ in what is each node's own have the same.
func TestDigest(t *testing.T) {
	const file = "[limits]\nmax_queued = 500\n[types.email]\ncapacity = 4\n[schedules.tidy]\ntype = \"email\"\nevery = \"1h\"\n"
	base := mustParse(t, file).Digest()
	if len(base) != digestLen {
		t.Fatalf("the digest is %q", base)
	}
	for _, same := range []string{
		"[server]\ndir = \"elsewhere\"\nhttp = \"off\"\nlog_level = \"debug\"\n",
		"[server]\ndurability = \"always\"\n", // the default
		"[nats]\ntls_cert = \"a\"\ntls_key = \"b\"\n",
		"[types.report]\nexec = [\"true\"]\n",
		"[cluster]\nname = \"c\"\nnode = \"a\"\nlisten = \"127.0.0.1:1\"\npeers = [\"127.0.0.1:2\", \"127.0.0.1:3\"]\n",
	} {
		if got := mustParse(t, same+file).Digest(); got != base {
			t.Errorf("%s gives %s, want %s", same, got, base)
		}
	}
	seen := map[string]string{base: ""}
	for _, other := range []string{
		"[server]\ndurability = \"interval\"\n", "[defaults]\ncapacity = 9\n", "[types.report]\ncapacity = 9\n", "[types.report]\nlease = \"9s\"\n",
		"[retention]\ncut_events = 2000\n", "[retention]\ncompleted = \"1h\"\n", "[dedup_hook]\nsubject = \"a.b\"\n", "[pools.gpu]\nslots = 2\n",
		"[workers]\nstart_timeout = \"9s\"\n", "[worker_circuit]\nconsecutive = 9\n", "[namespaces.acme]\n", "[schedules.more]\ntype = \"email\"\nevery = \"2h\"\n",
	} {
		got := mustParse(t, other+file).Digest()
		if was, taken := seen[got]; taken {
			t.Errorf("%s has the digest of %q", other, was)
		}
		seen[got] = other
	}
}
