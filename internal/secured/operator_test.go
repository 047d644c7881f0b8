package secured

import (
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// operator is one with an account that has JetStream.
type operator struct {
	root, account nkeys.KeyPair
	claims        *jwt.AccountClaims // the account's
	system        string             // the system account
	systemJWT     string
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
	if o.account, err = nkeys.CreateAccount(); err != nil {
		t.Fatal(err)
	}
	o.claims = jwt.NewAccountClaims(public(t, o.account))
	o.claims.Name = "work"
	o.claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
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

func public(t *testing.T, pair nkeys.KeyPair) string {
	t.Helper()
	s, err := pair.PublicKey()
	return must(t, s, err)
}

// config is that of a server; what the account has later it does not know.
func (o *operator) config(t *testing.T) string {
	t.Helper()
	c := jwt.NewOperatorClaims(public(t, o.root))
	c.Name, c.SystemAccount = "operator", o.system
	op, err := c.Encode(o.root)
	op = must(t, op, err)
	account, err := o.claims.Encode(o.root)
	account = must(t, account, err)
	return "jetstream { store_dir: STORE }\noperator: " + op + "\nsystem_account: " + o.system + "\nresolver: MEMORY\nresolver_preload {\n" +
		public(t, o.account) + ": " + account + "\n" + o.system + ": " + o.systemJWT + "\n}\n"
}

// scope gives the account a signing key with limits.
func (o *operator) scope(t *testing.T, role string, limits jwt.UserPermissionLimits) nkeys.KeyPair {
	t.Helper()
	pair, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	s := jwt.NewUserScope()
	s.Key, s.Role, s.Template = public(t, pair), role, limits
	o.claims.SigningKeys.AddScopedSigner(s)
	return pair
}

// user is the text of a credentials file, signed by a scope's key.
func (o *operator) user(t *testing.T, name string, signer nkeys.KeyPair) string {
	t.Helper()
	key, seed := newUser(t)
	c := jwt.NewUserClaims(key)
	c.Name, c.IssuerAccount = name, public(t, o.account)
	c.SetScoped(true)
	text, err := c.Encode(signer)
	text = must(t, text, err)
	file, err := jwt.FormatUserConfig(text, []byte(seed))
	return string(must(t, file, err))
}
