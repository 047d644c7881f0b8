package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

// mustReload puts a configuration into force.
func mustReload(t *testing.T, e *Engine, c config.Config) []string {
	t.Helper()
	waiting, err := e.Reload(c)
	if err != nil {
		t.Fatal(err)
	}
	return waiting
}

// user is a NATS user with the test's password.
func user(name string, roles ...access.Role) config.NATSUser {
	return config.NATSUser{Name: name, Password: testPassword, Roles: access.InDefault(access.RolesOf(roles...))}
}

// refusedBy waits until the server has refused a connection its login.
func refusedBy(t *testing.T, refused <-chan string) {
	t.Helper()
	for {
		select {
		case why := <-refused:
			if strings.Contains(strings.ToLower(why), "authorization") {
				return
			}
		case <-time.After(testTimeout):
			t.Fatal("the server does not refuse it")
		}
	}
}

// A producer in the midst of publishing is cut off when its user is removed,
// and what was acknowledged to it is work; nobody else notices anything.
func TestRemovedProducer(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("feeder", access.Submit), user("other", access.Submit), user("ops", access.Read, access.Operate)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	ctx := testContext(t)
	feeder, refused := as(t, e, "feeder")
	other, _ := as(t, e, "other")
	ops, _ := as(t, e, "ops")

	accepted := make(chan string, 1)
	ended := make(chan []string, 1)
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var ids []string
		for {
			sub, err := feeder.Submit(publishing, streamwright.Item{Type: "email"})
			if err != nil {
				ended <- ids
				return
			}
			ids = append(ids, sub.ID)
			select {
			case accepted <- sub.ID:
			default:
			}
		}
	}()
	<-accepted
	c.NATS.Users = c.NATS.Users[1:]
	mustReload(t, e, c)
	refusedBy(t, refused)
	stop() // the client would ask again for as long as it may
	ids := <-ended
	for _, id := range ids {
		if _, err := ops.Get(ctx, id); err != nil {
			t.Errorf("%s was accepted, and is lost: %v", id, err)
		}
	}
	if _, err := other.Submit(ctx, streamwright.Item{Type: "email"}); err != nil {
		t.Errorf("another producer: %v", err)
	}
	if _, err := nats.Connect(e.URL(), nats.UserInfo("feeder", testPassword)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("it comes back: %v", err)
	}
	for name, c := range map[string]*streamwright.Client{"another producer": other, "the operator": ops} {
		if n := c.Conn().Stats().Reconnects; n != 0 {
			t.Errorf("%s had to connect %d times more", name, n)
		}
	}
	if n := e.nc.Stats().Reconnects; n != 0 {
		t.Errorf("the engine had to connect %d times more", n)
	}
}

// A worker whose password is exchanged in the midst of an item, first in the
// file that it reads and then at the engine, ends the item and takes more.
func TestExchangedPasswordOfAWorker(t *testing.T) {
	const changed = "another horse, another battery"
	atEngine, atWorker := writeFile(t, "engine.password", testPassword+"\n"), writeFile(t, "worker.password", testPassword+"\n")
	c := config.Default()
	c.NATS.Users = []config.NATSUser{{Name: "work", PasswordFile: atEngine, Roles: access.InDefault(access.RolesOf(access.Work))}, user("submit", access.Submit)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	ctx := testContext(t)
	submitter, _ := as(t, e, "submit")
	again := make(chan struct{}, 1)
	login, err := streamwright.Connect(ctx, e.URL(), streamwright.WithUserFile("work", atWorker), streamwright.WithNATS(
		nats.ReconnectHandler(func(*nats.Conn) { again <- struct{}{} }), nats.ReconnectWait(10*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(login.Close)
	running, proceed := make(chan struct{}, 10), make(chan struct{})
	w, err := workers.New(login.Conn(), workers.Config{ID: "w1", Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) {
		running <- struct{}{}
		<-proceed
		return "done", nil
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(testContext(t)) })
	first, err := submitter.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	rewrite(t, atWorker, changed+"\n")
	rewrite(t, atEngine, changed+"\n")
	mustReload(t, e, c)
	select {
	case <-again:
	case <-time.After(testTimeout):
		t.Fatal("the worker keeps its connection, or does not come back")
	}
	close(proceed)
	second, err := submitter.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first.ID, second.ID} {
		it, err := submitter.Wait(ctx, id)
		if err != nil || it.State != events.StateCompleted {
			t.Errorf("%s: %+v, %v", id, it, err)
		}
		if err == nil && id == first.ID && it.Attempt != 1 {
			t.Errorf("it took %d attempts", it.Attempt)
		}
	}
}

// Who may do less stays connected, and can do no more than that; the
// subscriptions that he may not have are gone.
func TestFewerRoles(t *testing.T) {
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("x", access.Submit, access.Read), user("work", access.Work)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	ctx := testContext(t)
	x, refused := as(t, e, "x")
	heard := make(chan *nats.Msg, 10)
	if _, err := x.Conn().ChanSubscribe(wire.Default.EventAll(), heard); err != nil {
		t.Fatal(err)
	}
	tell := func() {
		t.Helper()
		submit(t, e, wire.Submit{Type: "email"})
	}
	if err := x.Conn().FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	tell()
	select {
	case <-heard:
	case <-time.After(testTimeout):
		t.Fatal("a reader hears no events")
	}
	c.NATS.Users = []config.NATSUser{user("x", access.Submit), user("work", access.Work)}
	mustReload(t, e, c)
	for len(heard) > 0 { // what was heard before
		<-heard
	}
	tell()
	if _, err := x.Submit(ctx, streamwright.Item{Type: "email"}); err != nil {
		t.Errorf("submit: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := x.List(short, streamwright.Filter{}); err == nil {
		t.Error("it still lists")
	}
	if err := x.Conn().FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
		t.Error("it still hears events")
	default:
	}
	found := false
	for len(refused) > 0 {
		why := <-refused
		found = found || strings.Contains(strings.ToLower(why), "permissions violation")
	}
	if !found {
		t.Error("it was told nothing")
	}
	if n := x.Conn().Stats().Reconnects; n != 0 {
		t.Errorf("it connected %d times more", n)
	}
}

// open makes a request that takes its time, and returns a channel with how it
// ended: its status, then its end.
func open(t *testing.T, method, url, token, body string) (began chan int, ended chan string) {
	t.Helper()
	began, ended = make(chan int, 1), make(chan string, 1)
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	go func() {
		resp, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			ended <- err.Error()
			return
		}
		defer resp.Body.Close()
		began <- resp.StatusCode
		data, _ := io.ReadAll(resp.Body)
		ended <- fmt.Sprint(resp.StatusCode, " ", string(data))
	}()
	return began, ended
}

// A token that is removed ends what was opened with it, feeds and long polls
// alike; what others have open goes on.
func TestRemovedTokenEndsWhatIsOpen(t *testing.T) {
	logins.Open(t, "it reloads a file without users")
	const gone, stays = "0123456789-abcdef-gone", "0123456789-abcdef-stays"
	both := "gone " + gone + " submit,work,read\nstays " + stays + " submit,work,read\n"
	path := writeFile(t, "tokens", both)
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokensFile: path})
	id := submit(t, e, wire.Submit{Type: "email"}).ID
	base := e.HTTPURL() + "/api/v1/"
	type request struct {
		name, method, path, body string
		feed                     bool
	}
	requests := []request{
		{"the feed of events", "GET", "events", "", true}, {"the page's feed", "GET", "live", "", true}, {"followed logs", "GET", "work/" + id + "/logs?follow=true", "", true},
		{"waiting", "GET", "work/" + id + "/wait?timeout=300", "", false},
	}
	ends := map[string]map[string]chan string{gone: {}, stays: {}}
	for token := range ends {
		for _, r := range requests {
			began, ended := open(t, r.method, base+r.path, token, r.body)
			ends[token][r.name] = ended
			if r.feed {
				select {
				case status := <-began:
					if status != http.StatusOK {
						t.Fatalf("%s: %d", r.name, status)
					}
				case why := <-ended:
					t.Fatalf("%s ended: %s", r.name, why)
				case <-time.After(testTimeout):
					t.Fatalf("%s does not begin", r.name)
				}
			}
		}
	}
	rewrite(t, path, "stays "+stays+" submit,work,read\n")
	mustReload(t, e, config.Config{})
	for _, r := range requests {
		select {
		case how := <-ends[gone][r.name]:
			if !r.feed && !strings.HasPrefix(how, "401 ") {
				t.Errorf("%s ended with %s", r.name, how)
			}
		case <-time.After(testTimeout):
			t.Errorf("%s goes on", r.name)
		}
		select {
		case how := <-ends[stays][r.name]:
			t.Errorf("another's %s ended as well: %s", r.name, how)
		default:
		}
	}
	// What the other has open ends with its token as well, at a second reload.
	rewrite(t, path, "third 0123456789-abcdef-third read\n")
	mustReload(t, e, config.Config{})
	for _, r := range requests {
		select {
		case <-ends[stays][r.name]:
		case <-time.After(testTimeout):
			t.Errorf("another's %s goes on", r.name)
		}
	}
}

// A worker's open poll ends with its token.
func TestRemovedTokenEndsAPoll(t *testing.T) {
	logins.Open(t, "it reloads a file without users")
	const gone, stays = "0123456789-abcdef-gone", "0123456789-abcdef-stays"
	path := writeFile(t, "tokens", "gone "+gone+" work\nstays "+stays+" work\n")
	e := mustStart(t, Options{Memory: true, NATSListen: config.Off, HTTP: "127.0.0.1:0", HTTPTokensFile: path})
	began, ended := open(t, "POST", e.HTTPURL()+"/api/v1/workers", gone, `{"worker":"w1","types":["email"],"slots":1}`)
	if status := <-began; status != http.StatusCreated {
		t.Fatalf("register: %s", <-ended)
	}
	_, session, _ := strings.Cut(<-ended, `"session":"`)
	session, _, _ = strings.Cut(session, `"`)
	_, ended = open(t, "POST", e.HTTPURL()+"/api/v1/workers/w1/poll", gone, `{"session":"`+session+`","wait_ms":60000}`)
	waitUntil(t, func() bool {
		list := request[wire.WorkersReply](t, e, wire.APIWorkers, wire.StatsRequest{}).Workers
		return len(list) == 1 && list[0].Offered == 1
	}, func() string { return "the poll does not wait" })
	rewrite(t, path, "stays "+stays+" work\n")
	mustReload(t, e, config.Config{})
	select {
	case <-ended:
	case <-time.After(testTimeout):
		t.Fatal("the poll goes on")
	}
}

// Anything wrong anywhere, and all is as it was.
func TestReloadIsAllOrNothing(t *testing.T) {
	text, of := tokens()
	tokensFile, password := writeFile(t, "tokens", "first 0123456789-abcdef-first read\n"), writeFile(t, "password", testPassword+"\n")
	ca := newAuthority(t, "ours")
	cert, key := ca.issue("engine", time.Now().Add(time.Hour))
	c := config.Default()
	c.HTTP.TokensFile = tokensFile
	c.NATS.TLSCert, c.NATS.TLSKey = cert, key
	c.NATS.Users = []config.NATSUser{{Name: "a", PasswordFile: password, Roles: access.InDefault(access.RolesOf(access.Read))}}
	log := new(need.Log)
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
	h := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(h.CloseIdleConnections)
	rewrite(t, tokensFile, text) // good, and never in force

	for name, change := range map[string]func(*config.Config){
		"weak password": func(c *config.Config) {
			c.NATS.Users = []config.NATSUser{{Name: "a", PasswordFile: writeFile(t, "p", "short\n"), Roles: access.InDefault(access.RolesOf(access.Read))}}
		},
		"no password file": func(c *config.Config) {
			c.NATS.Users = []config.NATSUser{{Name: "a", PasswordFile: "/nowhere", Roles: access.InDefault(access.RolesOf(access.Read))}}
		},
		"no users any more": func(c *config.Config) { c.NATS.Users = nil },
		"bad certificate":   func(c *config.Config) { c.NATS.TLSCert = writeFile(t, "c", "nonsense") },
		"another's key":     func(c *config.Config) { _, c.NATS.TLSKey = ca.issue("x", time.Now().Add(time.Hour)) },
		"no tokens":         func(c *config.Config) { c.HTTP.TokensFile = "" },
		"invalid": func(c *config.Config) {
			c.NATS.Users = []config.NATSUser{{Name: "a.b", Password: testPassword, Roles: access.InDefault(access.RolesOf(access.Submit))}}
		},
	} {
		bad := c
		change(&bad)
		before := len(log.String())
		if _, err := e.Reload(bad); events.CodeOf(err) != events.CodeBadConfig {
			t.Errorf("%s: %v", name, err)
		}
		if said := log.String()[before:]; !strings.Contains(said, "all is as it was") {
			t.Errorf("%s: the log says %q", name, said)
		}
		if status, _ := ask(t, h, "GET", e.HTTPURL()+"/metrics", of[access.Read]); status != http.StatusUnauthorized {
			t.Errorf("%s: the new tokens are in force: %d", name, status)
		}
		cl, err := streamwright.Connect(testContext(t), e.URL(), streamwright.WithTLS(ca.file, "", ""), streamwright.WithUser("a", testPassword))
		if err != nil {
			t.Fatalf("%s: the user of before: %v", name, err)
		}
		cl.Close()
	}
	mustReload(t, e, c)
	if status, _ := ask(t, h, "GET", e.HTTPURL()+"/metrics", of[access.Read]); status != http.StatusOK {
		t.Errorf("in the end: %d", status)
	}
	if strings.Contains(log.String(), of[access.Read]) || strings.Contains(log.String(), testPassword) {
		t.Error("the log tells a secret")
	}
}

// An engine that was open lets only users in from then on, who are there
// already included.
func TestReloadClosesTheDoor(t *testing.T) {
	logins.Open(t, "it has users of its own")
	e := mustStart(t, Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	refused := make(chan string, 1000)
	nc, err := nats.Connect(e.URL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("submit", access.Submit)}
	mustReload(t, e, c)
	refusedBy(t, refused)
	if _, err := nats.Connect(e.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without a login: %v", err)
	}
	in, _ := as(t, e, "submit")
	if _, err := in.Submit(testContext(t), streamwright.Item{Type: "email"}); err != nil {
		t.Errorf("the user: %v", err)
	}
	if _, err := mustClient(t, e).Engine().Stats(testContext(t)); err != nil {
		t.Errorf("in the process: %v", err)
	}
}

// What a reload does not put into force is named, until the restart.
func TestReloadNamesWhatWaits(t *testing.T) {
	logins.Open(t, "it reloads a file without users")
	log := new(need.Log)
	c := config.Default()
	e := mustStart(t, Options{Memory: true, Config: c, HTTP: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
	c.Limits.MaxRunning, c.Server.LogLevel = 7, "debug"
	for range 2 {
		if got := mustReload(t, e, c); !slices.Equal(got, []string{"limits.max_running", "server.log_level"}) {
			t.Errorf("waiting: %q", got)
		}
	}
	if !strings.Contains(log.String(), "changed, needs a restart: limits.max_running, server.log_level") {
		t.Errorf("the log says %s", log.String())
	}
	if got := mustReload(t, e, config.Default()); got != nil {
		t.Errorf("as it was, and %q wait", got)
	}
}
