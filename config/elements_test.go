package config

import (
	"strings"
	"testing"
)

// A fault in an element of a list of tables is reported where it stands, however the
// list is written.
func TestFaultsInListsOfTablesHaveTheirLines(t *testing.T) {
	const users = `[nats]
[[nats.users]]
name = "a"
password = "0123456789ab"
roles = ["read"]

[[nats.users]]
name = "b"
password = "short"
roles = ["read"]

[[nats.users]]
name = "c"
nkey = "UABC"
roles = ["root"]

[[nats.users]]
name = "a"
pasword = "0123456789ab"
roles = ["read"]
`
	const limits = `[limits]
max_queued = 100
[[limits.queue_steps]]
over = 10
min_priority = 5
[[limits.queue_steps]]
min_priority = 12
over = 20
[types.a]
rates = [
  { per = "type", at = "submit", n = 1, interval = "1s" },
  { per = "type", at = "submit",
    n = 0, interval = "1s" },
  { per = "type", at = "submit", n = 1, interval = true },
]
`
	const steps = `[limits]
max_queued = 10
[[limits.queue_steps]]
over = 5
min_priority = 5
[[limits.queue_steps]]
min_priority = 6
over = 20
`
	const clients = `[http]
tls_cert = "c"
tls_key = "k"
client_ca = "ca"
[[http.clients]]
name = "a"
roles = ["read"]
[[http.clients]]
roles = ["read"]
[[http.clients]]
name = "b"
`
	for file, wants := range map[string][]string{
		users: {
			"e.toml:15: nats.users has an element 3 whose roles is wrong", "e.toml:19: nats.users has pasword in its element 4, which is no setting",
		},
		strings.NewReplacer("pasword", "password", `"root"`, `"work"`).Replace(users): {
			"e.toml:9: nats.users has an element 2 (b) that has a weak password: use 12 characters or more", "e.toml:14: nats.users has an element 3 (c) that has an nkey",
			"e.toml:18: nats.users has the name or nkey of its element 4 (a) twice",
		},
		limits: {
			"e.toml:7: limits.queue_steps has an element 2 whose min_priority is 12", "e.toml:14: types.a.rates has an element 3 whose interval is true",
		},
		strings.NewReplacer("12", "6", "interval = true ", `interval = "1s" `).Replace(limits): {"e.toml:13: types.a.rates has an element 2 whose n is 0"},
		steps:   {"e.toml:8: limits.queue_steps [1].over is 20"},
		clients: {"e.toml:8: http.clients has an element 2 without a name", "e.toml:10: http.clients has an element 3 (b) without roles"},
	} {
		_, err := Parse("e.toml", []byte(file))
		if err == nil {
			t.Errorf("no error:\n%s", file)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); len(got) != len(wants) {
			t.Errorf("%d faults, not %d:\n%s\n%v", len(got), len(wants), file, err)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
	}
}
