package secured

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/connect"
)

// Credentials that are exchanged while a program runs count at its next
// reconnect.
func TestExchangedCredentials(t *testing.T) {
	op := newOperator(t)
	pair, err := nkeys.CreateAccount()
	account := jwt.NewAccountClaims(public(t, must(t, pair, err)))
	scope := jwt.NewUserScope()
	scope.Template.Limits.NatsLimits = jwt.NatsLimits{Subs: jwt.NoLimit, Data: jwt.NoLimit, Payload: jwt.NoLimit}
	first := user(t, account, "first", scope)
	scope = jwt.NewUserScope()
	scope.Template.Limits.NatsLimits = jwt.NatsLimits{Subs: jwt.NoLimit, Data: jwt.NoLimit, Payload: jwt.NoLimit}
	second := user(t, account, "second", scope)
	op.add(t, account)
	url := natsServer(t, op.config(t)).ClientURL()
	file := write(t, t.TempDir()+"/a.creds", first)
	c := connected(t, url, connect.Settings{Creds: file}, new(atomic.Int32))
	who := func() string { return userOf(t, c) }
	before := who()
	write(t, file, second)
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is another user", func() bool { now := who(); return now != "" && now != before })
}

// A password that the server refuses for a while, because it is exchanged there
// later than here, does not end the connection either.
func TestExchangedPassword(t *testing.T) {
	t.Parallel()
	url := natsServer(t, `authorization { users = [ { user: a, password: right } ] }`).ClientURL()
	file := write(t, t.TempDir()+"/password", "right\n")
	var refused atomic.Int32
	c := connected(t, url, connect.Settings{User: "a", PasswordFile: file}, &refused)
	write(t, file, "wrong\n")
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is refused three times", func() bool { return refused.Load() >= 3 })
	write(t, file, "right\n")
	eventually(t, "it is connected again", func() bool { return userOf(t, c) != "" })
}

// connected is a client that counts how often it is refused.
func connected(t *testing.T, url string, s connect.Settings, refused *atomic.Int32) *streamwright.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := streamwright.Connect(ctx, url, streamwright.WithConnection(s), streamwright.WithNATS(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrAuthorization) {
			refused.Add(1)
		}
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// userOf asks the server who a client is; empty while it is not connected.
func userOf(t *testing.T, c *streamwright.Client) string {
	t.Helper()
	if !c.Conn().IsConnected() {
		return ""
	}
	m, err := c.Conn().Request("$SYS.REQ.USER.INFO", nil, time.Second)
	if err != nil {
		return ""
	}
	var info struct {
		Data struct {
			User string `json:"user"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	return info.Data.User
}
