package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/access"
)

const anNkey = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"

func TestAccessIsRead(t *testing.T) {
	c := mustParse(t, `
[http]
tokens_file = "tokens"
tls_cert = "c.pem"
tls_key = "k.pem"
client_ca = "ca.pem"
hosts = ["engine.internal"]
allow_open = true
[[http.clients]]
name = "feeder"
roles = ["submit"]
[[http.clients]]
name = "ops.example.org"
roles = ["read", "operate"]
[nats]
allow_open = false
tls_cert = "nc.pem"
tls_key = "nk.pem"
[[nats.users]]
name = "workers"
password = "correct horse battery"
roles = ["work", "acme/work", "*/read"]
[[nats.users]]
name = "feeder"
password_file = "feeder.password"
roles = ["submit"]
documents = false
[[nats.users]]
name = "ops"
nkey = "`+anNkey+`"
roles = ["read", "operate"]
`)
	if want := (HTTP{
		TokensFile: "tokens", TLSCert: "c.pem", TLSKey: "k.pem", ClientCA: "ca.pem", Hosts: []string{"engine.internal"}, AllowOpen: true,
		Clients: []HTTPClient{{"feeder", access.InDefault(access.RolesOf(access.Submit))}, {"ops.example.org", access.InDefault(access.RolesOf(access.Read, access.Operate))}},
	}); !reflect.DeepEqual(c.HTTP, want) {
		t.Errorf("got %+v\nwant %+v", c.HTTP, want)
	}
	if want := (NATS{TLSCert: "nc.pem", TLSKey: "nk.pem", Users: []NATSUser{
		{Name: "workers", Password: "correct horse battery", Roles: access.Everywhere(access.RolesOf(access.Read)).With("default", access.RolesOf(access.Work)).With("acme", access.RolesOf(access.Work))},
		{Name: "feeder", PasswordFile: "feeder.password", Roles: access.InDefault(access.RolesOf(access.Submit)), NoDocuments: true},
		{Name: "ops", Nkey: anNkey, Roles: access.InDefault(access.RolesOf(access.Read, access.Operate))},
	}}); !reflect.DeepEqual(c.NATS, want) {
		t.Errorf("got %+v\nwant %+v", c.NATS, want)
	}
}

func TestAccessRefuses(t *testing.T) {
	user := func(fields string) string { return "[nats]\nusers = [{ " + fields + " }]" }
	for want, file := range map[string]string{
		`http.clients has an element 1 whose roles is wrong: unknown role "root": use submit, work, read, operate or approve`:              "[http]\nclients = [{ name = \"a\", roles = [\"root\"] }]",
		`http.clients has an element 1 whose roles is wrong: "acme/root": unknown role "root": use submit, work, read, operate or approve`: "[http]\nclients = [{ name = \"a\", roles = [\"acme/root\"] }]",
		`nats.users has an element 1 whose roles is wrong: "Acme/read": "Acme" is no namespace: use at most 32 characters`:                 user(`name = "a", password = "0123456789ab", roles = ["Acme/read"]`),
		`leaf.sites has an element 1 whose roles is "read,acme/submit": a site has roles in the namespace default alone`:                   "[leaf]\nsites = [{ name = \"a\", roles = [\"acme/submit\", \"read\"] }]",
		`leaf.sites has an element 1 (a) that has a namespace, and is no mirror: sites submit to the namespace default`:                    "[leaf]\nlisten = \"127.0.0.1:0\"\nsites = [{ name = \"a\", namespace = \"acme\" }]",
		`leaf.sites has an element 1 whose namespace is wrong: "Acme" is no namespace: use at most 32 characters`:                          "[leaf]\nsites = [{ name = \"a\", mirror = true, namespace = \"Acme\" }]",
		"http.clients has an element 1 whose roles is wrong: no role given":                                                                "[http]\nclients = [{ name = \"a\", roles = [] }]",
		"e.toml:9: http.clients has the name a twice":                                                                                      "[http]\ntls_cert=\"c\"\ntls_key=\"k\"\nclient_ca=\"ca\"\n[[http.clients]]\nname = \"a\"\nroles = [\"read\"]\n[[http.clients]]\nname = \"a\"\nroles = [\"work\"]",
		"http.clients has an element 1 (a) without roles":                                                                                  "[http]\nclients = [{ name = \"a\" }]",
		"http.clients has an element 1 without a name":                                                                                     "[http]\nclients = [{ roles = [\"read\"] }]",
		"http.client_ca and [[http.clients]] belong together":                                                                              "[http]\ntls_cert=\"c\"\ntls_key=\"k\"\nclient_ca = \"ca\"",
		"http.tls_cert and tls_key belong together":                                                                                        "[http]\ntls_cert = \"c\"",
		"http.client_ca needs tls_cert and tls_key":                                                                                        "[http]\nclient_ca = \"c\"\nclients = [{ name = \"a\", roles = [\"read\"] }]",
		"nats.tls_cert and tls_key belong together":                                                                                        "[nats]\ntls_key = \"c\"",
		"http.allow_open is \"yes\": it must be true or false":                                                                             "[http]\nallow_open = \"yes\"",
		"nats.users has an element 1 (a.b) that has an invalid name":                                                                       user(`name = "a.b", password = "0123456789ab", roles = ["read"]`),
		"nats.users has an element 1 (a) that must have exactly one of password":                                                           user(`name = "a", roles = ["read"]`),
		"nats.users has an element 1 (b) that must have exactly one of password":                                                           user(`name = "b", password = "0123456789ab", password_file = "f", roles = ["read"]`),
		"nats.users has an element 1 (a) that has a weak password":                                                                         user(`name = "a", password = "0123456789a", roles = ["read"]`),
		"nats.users has an element 1 (a) that has an nkey that is no user's":                                                               user(`name = "a", nkey = "UABC", roles = ["read"]`),
		"nats.users has an element 1 (a) that has no roles":                                                                                user(`name = "a", password = "0123456789ab"`),
		"nats.users has an element 1 whose documents is 1: it must be true or false":                                                       user(`name = "a", password = "0123456789ab", roles = ["read"], documents = 1`),
		"nats.users has the name or nkey of its element 2 (a) twice":                                                                       "[nats]\nusers = [{ name = \"a\", password = \"0123456789ab\", roles = [\"read\"] }, { name = \"a\", password = \"0123456789ab\", roles = [\"work\"] }]",
		"nats.users has pasword in its element 1, which is no setting: did you mean password?":                                             user(`name = "a", pasword = "0123456789ab", roles = ["read"]`),
	} {
		_, err := Parse("e.toml", []byte(file))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789a") {
			t.Errorf("the error tells a password: %v", err)
		}
	}
}
