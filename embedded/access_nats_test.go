package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/logins"
	"github.com/streamwright/streamwright/wire"
	"github.com/streamwright/streamwright/workers"
)

const (
	testPassword   = "correct horse battery"
	testPasswordBC = "$2a$04$v7W05M.1F5a9EbCvC.A2RuEUtiGLojUIbnTUK7hysgwMQXbvUWEhq" // its bcrypt hash
)

// guarded starts an engine with a user of each role, named like it.
func guarded(t *testing.T, change ...func(*config.Config)) *Engine {
	t.Helper()
	c := config.Default()
	for _, r := range []access.Role{access.Submit, access.Work, access.Read, access.Operate, access.Approve} {
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: r.String(), Password: testPassword, Roles: access.InDefault(access.RolesOf(r))})
	}
	c.Workers.ProbeInterval, c.Workers.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
	for _, fn := range change {
		fn(&c)
	}
	return mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
}

// as connects as a user, and tells what the server refuses it.
func as(t *testing.T, e *Engine, user string, opts ...nats.Option) (*streamwright.Client, chan string) {
	t.Helper()
	refused := make(chan string, 1000)
	opts = append([]nats.Option{nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() })}, opts...)
	if user != "" {
		opts = append(opts, nats.UserInfo(user, testPassword))
	}
	c, err := streamwright.Connect(testContext(t), e.URL(), streamwright.WithNATS(opts...), streamwright.WithTryTimeout(2*time.Second), streamwright.WithDomain(e.clientNames().Domain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, refused
}

// noneRefused fails the test if the server has refused anything.
func noneRefused(t *testing.T, c *streamwright.Client, refused <-chan string) {
	t.Helper()
	if err := c.Conn().FlushTimeout(testTimeout); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case e := <-refused:
			t.Errorf("the server refused what the role needs: %s", e)
		default:
			return
		}
	}
}

// Each role does what it is for, and is refused nothing that it takes.
func TestRolesSufficeOnNATS(t *testing.T) {
	slow(t)
	t.Parallel()
	e := guarded(t)
	ctx := testContext(t)
	submitter, refusedSubmit := as(t, e, "submit")
	worker, refusedWork := as(t, e, "work")
	reader, refusedRead := as(t, e, "read")
	operator, refusedOperate := as(t, e, "operate")

	// Before the work begins, a reader tails and follows.
	tailed := make(chan streamwright.Event, 1000)
	tailCtx, stopTail := context.WithCancel(ctx)
	tailEnded := make(chan error, 1)
	go func() {
		tailEnded <- reader.Tail(tailCtx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error { tailed <- ev; return nil })
	}()
	runWorkerAs(t, worker)

	sub, err := submitter.Submit(ctx, streamwright.Item{Type: "email", Params: map[string]string{"to": "a"}})
	if err != nil {
		t.Fatal(err)
	}
	many, err := submitter.SubmitMany(ctx, []streamwright.Item{{Type: "email"}, {Type: "email"}})
	if err != nil || len(many) != 2 {
		t.Fatalf("submit many: %+v, %v", many, err)
	}
	large := map[string]string{"text": strings.Repeat("x", 3*events.MaxParamsBytes)}
	big, err := submitter.Submit(ctx, streamwright.Item{Type: "email", Params: large})
	if err != nil {
		t.Fatalf("submit a large document: %v", err)
	}
	js, err := jetstream.New(submitter.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if ack, err := js.Publish(ctx, wire.Default.Submit("email"), []byte(`{}`)); err != nil || ack.Stream != wire.Default.IntakeStream() {
		t.Fatalf("plain publish: %+v, %v", ack, err)
	}
	for _, id := range []string{sub.ID, big.ID} {
		if item, err := submitter.Wait(ctx, id); err != nil || item.State != events.StateCompleted {
			t.Fatalf("wait: %+v, %v", item, err)
		}
	}
	if w, err := submitter.WaitAll(ctx, []string{big.ID, sub.ID}); err != nil || len(w.Ended) != 2 || w.Ended[0].ID != big.ID {
		t.Fatalf("wait for two: %+v, %v", w, err)
	}
	later, err := submitter.Submit(ctx, streamwright.Item{Type: "email", Delay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if state, _, err := submitter.Cancel(ctx, later.ID, "changed my mind"); err != nil || state != events.StateCancelled {
		t.Fatalf("cancel: %s, %v", state, err)
	}
	readEverything(t, reader, sub.ID, big.ID)
	waitTail(t, tailed, sub.ID)
	stopTail()
	if err := <-tailEnded; !errors.Is(err, context.Canceled) {
		t.Errorf("tail: %v", err)
	}
	if changed, err := operator.Types().Pause(ctx, "email", streamwright.PauseOptions{}); err != nil || !changed {
		t.Fatalf("pause: %v, %v", changed, err)
	}
	if changed, err := operator.Types().Resume(ctx, "email"); err != nil || !changed {
		t.Fatalf("resume: %v, %v", changed, err)
	}
	audited(t, reader, map[string]string{"created": "submit", "cancelled": "submit", "paused": "operate", "resumed": "operate"})
	probed(t, e, reader)
	noneRefused(t, submitter, refusedSubmit)
	noneRefused(t, worker, refusedWork)
	noneRefused(t, reader, refusedRead)
	noneRefused(t, operator, refusedOperate)
}

// audited fails the test unless all acts of some kinds are known to be by whom they should.
func audited(t *testing.T, c *streamwright.Client, want map[string]string) {
	t.Helper()
	for action, by := range want {
		page, err := c.Engine().Audit(testContext(t), streamwright.AuditFilter{Action: action})
		if err != nil || len(page.Acts) == 0 {
			t.Errorf("audit of %s: %+v, %v", action, page, err)
		}
		for _, act := range page.Acts {
			if act.By != by {
				t.Errorf("%s by %q, want %q", action, act.By, by)
			}
		}
	}
}

// probed returns once the engine has asked its one worker three times how it
// is, and finds it well.
func probed(t *testing.T, e *Engine, c *streamwright.Client) {
	t.Helper()
	nc, err := e.connect(true)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked, err := nc.SubscribeSync(wire.Default.Probe("w1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := asked.NextMsg(testTimeout); err != nil {
			t.Fatalf("the worker is not probed: %v", err)
		}
	}
	until(t, "the probed worker is well", func() bool { // it may have answered one too late
		list, err := c.Workers().List(testContext(t))
		return err == nil && len(list) == 1 && list[0].Status == wire.WorkerActive
	})
}

// runWorkerAs runs a worker on a client's connection, with a probe.
func runWorkerAs(t *testing.T, c *streamwright.Client) {
	t.Helper()
	w, err := workers.New(c.Conn(), workers.Config{ID: "w1", Probe: true, Names: c.Names(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(ctx context.Context, it *workers.RawItem) (any, error) {
		it.Log("info", "working")
		workers.Progress(ctx, 50, "half")
		if bytes.Contains(it.Raw, []byte("xxx")) {
			return map[string]string{"answer": strings.Repeat("y", 600<<10)}, nil
		}
		return "done", nil
	})
	if err := w.Start(testContext(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(testContext(t)); err != nil {
			t.Errorf("stop worker: %v", err)
		}
	})
}

// readEverything uses each way of reading.
func readEverything(t *testing.T, c *streamwright.Client, id, big string) {
	t.Helper()
	ctx := testContext(t)
	item, err := c.Wait(ctx, id)
	if err != nil || item.State != events.StateCompleted {
		t.Fatalf("wait: %+v, %v", item, err)
	}
	if item, err = c.Get(ctx, big); err != nil {
		t.Fatal(err)
	}
	if doc, err := c.Params(ctx, item); err != nil || len(doc) < events.MaxParamsBytes {
		t.Fatalf("large params: %d bytes, %v", len(doc), err)
	}
	if doc, err := c.Result(ctx, item); err != nil || len(doc) < 600<<10 {
		t.Fatalf("large result: %d bytes, %v", len(doc), err)
	}
	var lines []string
	if err := c.FollowLogs(ctx, id, func(r streamwright.LogRecord) error { lines = append(lines, r.Message); return nil }); err != nil || !slices.Equal(lines, []string{"working"}) {
		t.Fatalf("follow logs: %q, %v", lines, err)
	}
	if _, err := c.History(ctx, id); err != nil {
		t.Fatal(err)
	}
	if p, err := c.List(ctx, streamwright.Filter{}); err != nil || len(p.Items) == 0 {
		t.Fatalf("list: %+v, %v", p, err)
	}
	if _, err := c.Engine().Verify(ctx, nil); err != nil {
		t.Fatal(err)
	}
	// By types and kinds, each event's decision is looked up.
	enough := errors.New("enough")
	if err := c.Tail(ctx, streamwright.TailOptions{Kinds: []streamwright.Kind{streamwright.KindCompleted}, Types: []string{"email"}, FromSeq: 1}, func(streamwright.Event) error { return enough }); !errors.Is(err, enough) {
		t.Fatalf("tail by kind: %v", err)
	}
}

func waitTail(t *testing.T, tailed <-chan streamwright.Event, id string) {
	t.Helper()
	for {
		select {
		case ev := <-tailed:
			if ev.ID == id && ev.Kind == events.KindCompleted {
				return
			}
		case <-time.After(testTimeout):
			t.Fatal("the tail did not come to the item's end")
		}
	}
}

// attempt is what a user tries and must not be able to do.
type attempt struct {
	user    string
	publish string // or
	listen  string
}

// Each role is refused what is another's. Nothing changes by its trying.
func TestRolesAreNoMoreOnNATS(t *testing.T) {
	e := guarded(t)
	n := wire.Default
	sub := submit(t, e, wire.Submit{Type: "email"})
	id, err := events.ParseID(sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	var all []attempt
	forbid := func(publish bool, subjects []string, users ...string) {
		for _, s := range subjects {
			for _, u := range users {
				if publish {
					all = append(all, attempt{user: u, publish: s})
				} else {
					all = append(all, attempt{user: u, listen: s})
				}
			}
		}
	}
	// Nobody but the engine.
	everyone := []string{"submit", "work", "read", "operate"}
	forbid(true, []string{
		n.Event(0, "email", events.KindCompleted), n.Intake(0, "email"), n.RunOf("email", "s"), n.AckRun("email"), n.Control("w1"), n.Probe("w1"), "$KV.work_workers.w1", "$KV.work_dedup.x",
		"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.WORK_DISPATCH.email", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.LIST", "$SRV.PING", "_INBOX.x", "_INBOX_read.x", "mine.subject", "$JS.work.API.STREAM.DELETE.WORK_EVENTS_0", "$JS.work.API.CONSUMER.CREATE.WORK_DISPATCH.x", "_R_.x",
		"$JS.API.CONSUMER.CREATE.WORK_DISPATCH.x", "$JS.API.CONSUMER.CREATE.WORK_LOGS.x", "$JS.API.CONSUMER.CREATE.WORK_INTAKE.x", "$JS.API.CONSUMER.CREATE.OBJ_work_blobs.x", "$JS.API.CONSUMER.CREATE.KV_work_workers.x",
	}, everyone...)
	for _, s := range []string{n.EventStream(0), n.IntakeStream(), n.LogStream(), n.DispatchStream(), "OBJ_work_blobs", "KV_work_workers"} {
		for _, op := range []string{"CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE"} {
			forbid(true, []string{"$JS.API.STREAM." + op + "." + s}, everyone...)
		}
	}
	for _, u := range everyone {
		for _, other := range []string{"_INBOX_submit.>", "_INBOX_read.abc", "_INBOX_*.>", ">", n.API("submit"), n.API(">"), n.SubmitAll(), n.RunAll(), "$JS.>", "_R_.>"} {
			if !strings.HasPrefix(other, access.InboxPrefix(u)+".") {
				forbid(false, []string{other}, u)
			}
		}
	}
	forbid(false, []string{n.Control("w1"), n.Probe("w1")}, "submit", "read", "operate")
	forbid(false, []string{n.LogAll(), n.EventAll()}, "submit", "work", "operate")
	// Others' roles.
	forbid(true, []string{n.Submit("email"), "$O.work_blobs.M.x"}, "read", "operate")
	forbid(true, []string{n.Submit("email")}, "work")
	forbid(true, []string{n.Log("email", id), "$JS.work.API.CONSUMER.MSG.NEXT.WORK_DISPATCH.email", "$JS.ACK.WORK_DISPATCH.email.1.1.1.1.0"}, "submit", "read", "operate")
	forbid(true, []string{"$JS.API.STREAM.MSG.GET.WORK_EVENTS_0", "$JS.API.DIRECT.GET.WORK_EVENTS_0", "$JS.API.CONSUMER.CREATE.WORK_EVENTS_0.x", "$JS.API.DIRECT.GET.WORK_LOGS", "$JS.work.API.DIRECT.GET.WORK_LOGS"}, everyone...)
	for _, endpoint := range wire.Endpoints() {
		for _, u := range everyone {
			if r, _ := access.ParseRole(u); !endpoint.Roles.Has(access.RolesOf(r)) {
				forbid(true, []string{n.API(endpoint.Name)}, u)
			}
		}
	}

	before := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{})
	last, err := e.ledger.eventLog.Last(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	clients, refused := map[string]*streamwright.Client{}, map[string]chan string{}
	for _, u := range everyone {
		clients[u], refused[u] = as(t, e, u)
	}
	for _, a := range all {
		nc := clients[a.user].Conn()
		if a.publish != "" {
			if err := nc.Publish(a.publish, []byte(`{"type":"email"}`)); err != nil {
				t.Fatal(err)
			}
			expect(t, refused[a.user], fmt.Sprintf("Permissions Violation for Publish to %q", a.publish))
			continue
		}
		s, err := nc.SubscribeSync(a.listen)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, refused[a.user], fmt.Sprintf("Permissions Violation for Subscription to %q", a.listen))
		_ = s.Unsubscribe()
	}
	if now, err := e.ledger.eventLog.Last(testContext(t)); err != nil || now.Seq != last.Seq {
		t.Errorf("the log has grown from %d to %d, %v", last.Seq, now.Seq, err)
	}
	if after := request[wire.StatsReply](t, e, wire.APIStats, wire.StatsRequest{}); len(after.Types) != len(before.Types) || !maps.Equal(after.Types[0].States, before.Types[0].States) || after.Types[0].Capacity != before.Types[0].Capacity {
		t.Errorf("the state has changed from %+v to %+v", before.Types, after.Types)
	}
	t.Logf("%d attempts refused", len(all))
}

// What the server itself answers goes where the asker says, past every
// permission. Such a message in the log is nobody's event: it changes nothing.
func TestAServersAnswerInTheLogIsNoEvent(t *testing.T) {
	e := guarded(t)
	ctx := testContext(t)
	sub := submit(t, e, wire.Submit{Type: "email"})
	submitter, _ := as(t, e, "submit")
	if err := submitter.Conn().PublishRequest(wire.Default.Submit("email"), wire.Default.Event(0, "email", events.KindCompleted), []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	// The engine goes on: what is submitted after it is accepted and visible.
	next, err := submitter.Submit(ctx, streamwright.Item{Type: "email"})
	if err != nil {
		t.Fatal(err)
	}
	reader, _ := as(t, e, "read")
	for _, id := range []string{sub.ID, next.ID} {
		if it, err := reader.Get(ctx, id); err != nil || it.State != events.StateQueued {
			t.Errorf("the item is %+v, %v", it, err)
		}
	}
	if p, err := reader.Engine().Verify(ctx, nil); err != nil || !p.Equal {
		t.Errorf("verify: %+v, %v", p, err)
	}
}

// Where there are no users, whoever is in the engine's account can be answered
// anywhere. A server's answer, or a stored message that a user has it deliver, is neither
// an event nor a submission, whatever the user wrote into it.
func TestDeliveriesByTheServerAreRefused(t *testing.T) {
	logins.Open(t, "it makes a consumer of the log")
	e := mustStart(t, Options{Memory: true})
	ctx, n := testContext(t), wire.Default
	sub := submit(t, e, wire.Submit{Type: "email"})
	id, err := events.ParseID(sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	user := mustClient(t, e)
	js, err := jetstream.New(user.Conn())
	if err != nil {
		t.Fatal(err)
	}
	frame, submission := n.Frame(0), n.Submit("email")
	// A forged frame, complete with an id, in a stream that a worker may write.
	forged, err := eventlog.NewMessage(n, 0, &eventlog.Write{Epoch: 9, Node: "forger", Events: []events.Event{
		{Kind: events.KindCancelled, ID: id, Type: "email", At: time.Now(), Body: &events.Cancelled{Reason: "forged"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	forged.Subject = n.Log("email", id)
	ack, err := js.PublishMsg(ctx, forged)
	if err != nil {
		t.Fatal(err)
	}
	make := fmt.Sprintf(`{"stream_name":%q,"config":{"name":"x","ack_policy":"none","deliver_policy":"all","mem_storage":true}}`, n.EventStream(0))
	if _, err := user.Conn().RequestWithContext(ctx, "$JS.API.CONSUMER.CREATE."+n.EventStream(0)+".x", []byte(make)); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{frame, submission} {
		for subject, body := range map[string]string{
			"$JS.API.DIRECT.GET." + n.LogStream():                        fmt.Sprintf(`{"seq":%d}`, ack.Sequence),
			"$JS.API.STREAM.MSG.GET." + n.LogStream():                    fmt.Sprintf(`{"seq":%d}`, ack.Sequence),
			"$JS.API.DIRECT.GET." + n.EventStream(0):                     `{"seq":2}`,
			"$JS.API.STREAM.INFO." + n.EventStream(0):                    "",
			"$JS.API.CONSUMER.MSG.NEXT." + n.EventStream(0) + ".x":       `{"batch":2,"no_wait":true}`,
			"$JS.API.CONSUMER.MSG.NEXT." + n.DispatchStream() + ".email": `{"batch":1,"no_wait":true}`,
			n.Log("email", id):                                           "{}",
		} {
			if err := user.Conn().PublishRequest(subject, to, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The server answers such requests in turn.
	if _, err := user.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+n.EventStream(0), nil); err != nil {
		t.Fatal(err)
	}
	// What comes behind them through the inbox is decided behind them.
	marker := mustClient(t, e)
	mjs, err := jetstream.New(marker.Conn())
	if err != nil {
		t.Fatal(err)
	}
	last, err := mjs.Publish(ctx, submission, []byte(`{"marker":true}`))
	if err != nil {
		t.Fatal(err)
	}
	reader := mustClient(t, e)
	var created, rejected int
	err = reader.Tail(ctx, streamwright.TailOptions{FromSeq: 1}, func(ev streamwright.Event) error {
		switch {
		case ev.Kind == events.KindCancelled:
			t.Errorf("a forged event counts: %+v", ev)
		case ev.Kind == events.KindRejected:
			rejected++
		case ev.Kind == events.KindCreated:
			if created++; strings.Contains(string(ev.Data), `marker`) {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	// The first item and the marker; all else was turned away.
	if created != 2 || rejected == 0 {
		t.Errorf("%d items created, %d submissions rejected, the marker is %d", created, rejected, last.Sequence)
	}
	if it, err := reader.Get(ctx, sub.ID); err != nil || it.State != events.StateQueued {
		t.Errorf("the item is %+v, %v", it, err)
	}
	if p, err := reader.Engine().Verify(ctx, nil); err != nil || !p.Equal {
		t.Errorf("verify: %+v, %v", p, err)
	}
}

var errEnough = errors.New("enough")

// Nobody comes in without a login, and users come in by each kind of it.
func TestLogins(t *testing.T) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := pair.PublicKey()
	e := guarded(t, func(c *config.Config) {
		c.NATS.Users = append(c.NATS.Users,
			config.NATSUser{Name: "keyed", Nkey: public, Roles: access.InDefault(access.RolesOf(access.Read))},
			config.NATSUser{Name: "hashed", Password: testPasswordBC, Roles: access.InDefault(access.RolesOf(access.Read))},
			config.NATSUser{Name: "filed", PasswordFile: writeFile(t, "password", testPassword+"\n"), Roles: access.InDefault(access.RolesOf(access.Read))},
		)
	})
	ctx := testContext(t)
	for _, opts := range [][]nats.Option{nil, {nats.UserInfo("read", "wrong password")}, {nats.UserInfo("engine", "")}} {
		if _, err := streamwright.Connect(ctx, e.URL(), streamwright.WithNATS(opts...)); err == nil || !strings.Contains(err.Error(), "refused the login") {
			t.Errorf("a stranger: %v", err)
		}
	}
	for user, opts := range map[string][]nats.Option{"hashed": nil, "filed": nil, "": {nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(access.InboxPrefix("keyed"))}} {
		c, refused := as(t, e, user, opts...)
		if _, err := c.Engine().Stats(ctx); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		noneRefused(t, c, refused)
	}
	// The process itself needs none.
	if _, err := mustClient(t, e).Engine().Stats(ctx); err != nil {
		t.Error(err)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
