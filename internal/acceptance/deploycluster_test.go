package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// The files of deploy/cluster make three nodes a cluster, with TLS and a secret: by
// their own commands, and their configuration with other addresses and folders.
func TestDeployedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("each of several clusters takes some seconds")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		need.Missing(t, "openssl makes the certificates: %v", err)
	}
	for name, of := range map[string]struct {
		commands string         // the file
		find     *regexp.Regexp // the arguments, as a JSON list or as words
		toml     string
		data     string
		peers    [3]string
		node     string // in the arguments, in place of a name
		user     string
	}{
		"compose": {commands: "compose/compose.yaml", find: regexp.MustCompile(`command: (\[.*\])`), toml: "compose/engine.toml", data: "/data", peers: [3]string{"n1", "n2", "n3"}, user: "client"},
		"systemd": {commands: "systemd/streamwright-node@.service", find: regexp.MustCompile(`ExecStart=streamwright (.*)`), toml: "systemd/engine.toml", data: "/var/lib/streamwright",
			peers: [3]string{"n1.internal", "n2.internal", "n3.internal"}, node: "%i", user: "client"},
		"kubernetes": {commands: "kubernetes/engine.yaml", find: regexp.MustCompile(`args: (\[.*\])`), toml: "kubernetes/config.yaml", data: "/data",
			peers: [3]string{"streamwright-0.streamwright-nodes", "streamwright-1.streamwright-nodes", "streamwright-2.streamwright-nodes"}, node: "$(POD_NAME)", user: "operator"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, folder := t.TempDir(), filepath.Join("..", "..", "deploy", "cluster")
			script := must(filepath.Abs(filepath.Join(folder, "certificates.sh")))(t)
			make := exec.Command(script, "127.0.0.1", of.peers[0])
			make.Dir = dir
			if out, err := make.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for file, text := range map[string]string{"tokens": "ops 0123456789-0123456789-0123456789 read", "client-password": "0123456789-client", "producer-password": "0123456789-producer", "worker-password": "0123456789-worker", "operator-password": "0123456789-client"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			toml := string(must(os.ReadFile(filepath.Join(folder, of.toml)))(t))
			if _, inMap, ok := strings.Cut(toml, "engine.toml: |\n"); ok {
				toml = strings.ReplaceAll("\n"+inMap, "\n    ", "\n")
			}
			var routes, nats [3]string
			for i, p := range of.peers {
				routes[i], nats[i] = need.Address(t).String(), need.Address(t).String()
				if !strings.Contains(toml, p+":6222") {
					t.Fatalf("%s does not name %s", of.toml, p)
				}
				toml = strings.ReplaceAll(toml, p+":6222", routes[i])
			}
			for _, secrets := range []string{"/etc/streamwright/secrets", "/secrets", "/cluster"} {
				toml = strings.ReplaceAll(toml, `"`+secrets+`/`, `"`+dir+`/`)
			}
			found := of.find.FindAllStringSubmatch(string(must(os.ReadFile(filepath.Join(folder, of.commands)))(t)), -1)
			var nodes [3]*proc
			for i := range nodes {
				var args []string
				text := found[min(i, len(found)-1)][1]
				if json.Unmarshal([]byte(text), &args) != nil {
					args = strings.Fields(text)
				}
				own := strings.NewReplacer("0.0.0.0:6222", routes[i], "0.0.0.0:4222", nats[i], "0.0.0.0:8484", "127.0.0.1:0", `"`+of.data+`"`, fmt.Sprintf("%q", filepath.Join(dir, fmt.Sprint("data", i)))).Replace(toml)
				config := filepath.Join(dir, fmt.Sprintf("engine%d.toml", i))
				if err := os.WriteFile(config, []byte(own), 0o600); err != nil {
					t.Fatal(err)
				}
				host, _, _ := strings.Cut(of.peers[i], ".")
				for j, a := range args {
					if filepath.Base(a) == "engine.toml" {
						args[j] = config
					} else if a == of.node && a != "" {
						args[j] = host
					}
				}
				if line := strings.Join(args, " "); !strings.HasPrefix(line, "serve ") || !strings.Contains(line, "--node "+host) {
					t.Fatalf("the command of %s is %q", host, line)
				}
				nodes[i] = begin(t, "", args...)
			}
			for i, n := range nodes {
				eventually(t, fmt.Sprintf("node %d is ready, or has ended", i), func() bool {
					select {
					case <-n.done:
						t.Fatalf("node %d has ended", i)
					default:
					}
					return strings.Contains(n.log.String(), "engine ready")
				})
			}
			var r wire.NodesReply
			eventually(t, "all nodes answer", func() bool {
				out := cli(t, "nats://"+nats[1], "cluster", "--json", "--user", of.user, "--password-file", filepath.Join(dir, "client-password"))
				r = wire.NodesReply{}
				return out.code == 0 && json.Unmarshal([]byte(out.out), &r) == nil && r.Owner != "" && len(r.Nodes) == 3 && r.Nodes[0].Online && r.Nodes[1].Online && r.Nodes[2].Online
			})
			for _, n := range r.Nodes {
				if n.SettingsDiffer {
					t.Errorf("the settings of %s differ", n.Node)
				}
			}
			for _, s := range r.Streams {
				if s.Replicas != 3 {
					t.Errorf("%s has %d replicas", s.Stream, s.Replicas)
				}
			}
			for _, n := range nodes {
				n.kill()
			}
		})
	}
}
