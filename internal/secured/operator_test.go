package secured

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// operator is one with the accounts of an engine and its users.
type operator struct {
	root      nkeys.KeyPair
	accounts  []string // their JWTs
	keys      []string // and public keys
	system    string   // the system account
	systemJWT string
}

// must is the value, or the test's end.
func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := new(operator)
	var err error
	if o.root, err = nkeys.CreateOperator(); err != nil {
		t.Fatal(err)
	}
	pair, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	o.system = public(t, pair)
	system := jwt.NewAccountClaims(o.system)
	system.Name = "system"
	text, err := system.Encode(o.root)
	o.systemJWT = must(t, text, err)
	return o
}

// printed is what the command prints of an account.
type printed struct {
	Account   string   `json:"account"`
	JetStream bool     `json:"jetstream"`
	User      string   `json:"user"`
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	Exports   []struct {
		Type        string   `json:"type"`
		Subject     string   `json:"subject"`
		Response    string   `json:"response"`
		ThresholdMS int64    `json:"response_threshold_ms"`
		Accounts    []string `json:"accounts"`
	} `json:"exports"`
	Imports []struct {
		Type    string `json:"type"`
		Account string `json:"account"`
		Subject string `json:"subject"`
		Local   string `json:"local"`
	} `json:"imports"`
}

func kindOf(t string) jwt.ExportType {
	if t == "stream" {
		return jwt.Stream
	}
	return jwt.Service
}

// users makes the accounts and returns the credentials of each one's user.
// Every export needs an activation, which each account that may import it gets.
// The engine's permissions are in the scope of a signing key: in a user's own JWT
// they would be too long for the server's max_control_line.
func (o *operator) users(t *testing.T) map[string]string {
	t.Helper()
	var all struct {
		Accounts []printed `json:"accounts"`
	}
	out := login{}.run(t, "permissions", "--json", "--user", "publish=publish", "--user", "submit=submit", "--user", "work=work", "--user", "read=read", "--user", "operate=operate").wants(t, 0)
	if err := json.Unmarshal([]byte(out.out), &all); err != nil {
		t.Fatal(err)
	}
	pairs := map[string]nkeys.KeyPair{}
	for _, a := range all.Accounts {
		pair, err := nkeys.CreateAccount()
		pairs[a.Account] = must(t, pair, err)
	}
	credentials := map[string]string{}
	for _, a := range all.Accounts {
		c := jwt.NewAccountClaims(public(t, pairs[a.Account]))
		c.Name = a.Account
		if a.JetStream {
			c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		for _, e := range a.Exports {
			c.Exports.Add(&jwt.Export{
				Name: e.Subject, Subject: jwt.Subject(e.Subject), Type: kindOf(e.Type), TokenReq: true,
				ResponseType: jwt.ResponseType(e.Response), ResponseThreshold: time.Duration(e.ThresholdMS) * time.Millisecond,
			})
		}
		for _, i := range a.Imports {
			from := pairs[i.Account]
			activation := jwt.NewActivationClaims(public(t, pairs[a.Account]))
			activation.ImportSubject, activation.ImportType = jwt.Subject(i.Subject), kindOf(i.Type)
			token, err := activation.Encode(from)
			c.Imports.Add(&jwt.Import{Name: i.Subject, Subject: jwt.Subject(i.Subject), LocalSubject: jwt.RenamingSubject(i.Local), Account: public(t, from), Type: kindOf(i.Type), Token: must(t, token, err)})
		}
		scope := jwt.NewUserScope()
		scope.Template.Limits.NatsLimits = jwt.NatsLimits{Subs: jwt.NoLimit, Data: jwt.NoLimit, Payload: jwt.NoLimit}
		scope.Template.Pub.Allow, scope.Template.Sub.Allow = a.Publish, a.Subscribe
		credentials[a.User] = user(t, c, a.User, scope)
		o.add(t, c)
	}
	return credentials
}

// add gives the operator an account.
func (o *operator) add(t *testing.T, c *jwt.AccountClaims) {
	t.Helper()
	var problems jwt.ValidationResults
	if c.Validate(&problems); problems.IsBlocking(true) {
		t.Fatalf("the account %s: %v", c.Name, problems.Errors())
	}
	text, err := c.Encode(o.root)
	o.accounts, o.keys = append(o.accounts, must(t, text, err)), append(o.keys, c.Subject)
}

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	s, err := pair.PublicKey()
	return must(t, s, err)
}

// config is that of a server; what comes to the operator later it does not know.
func (o *operator) config(t *testing.T) string {
	t.Helper()
	c := jwt.NewOperatorClaims(public(t, o.root))
	c.Name, c.SystemAccount = "operator", o.system
	op, err := c.Encode(o.root)
	op = must(t, op, err)
	var b strings.Builder
	for i, key := range o.keys {
		fmt.Fprintf(&b, "%s: %s\n", key, o.accounts[i])
	}
	return "jetstream { store_dir: STORE }\noperator: " + op + "\nsystem_account: " + o.system + "\nresolver: MEMORY\nresolver_preload {\n" +
		b.String() + o.system + ": " + o.systemJWT + "\n}\n"
}

// user gives an account a signing key with a scope, and is the text of the
// credentials file of a user that is signed by it.
func user(t *testing.T, account *jwt.AccountClaims, name string, scope *jwt.UserScope) string {
	t.Helper()
	signer, err := nkeys.CreateAccount()
	signer = must(t, signer, err)
	scope.Key, scope.Role = public(t, signer), name
	account.SigningKeys.AddScopedSigner(scope)
	return signed(t, account, name, signer)
}

// signed is the text of the credentials file of a user.
func signed(t *testing.T, account *jwt.AccountClaims, name string, signer nkeys.KeyPair) string {
	t.Helper()
	key, seed := newUser(t)
	c := jwt.NewUserClaims(key)
	c.Name, c.IssuerAccount = name, account.Subject
	c.SetScoped(true)
	text, err := c.Encode(signer)
	text = must(t, text, err)
	file, err := jwt.FormatUserConfig(text, []byte(seed))
	return string(must(t, file, err))
}
