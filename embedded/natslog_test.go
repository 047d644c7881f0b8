package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/config"
)

// The server quotes in its log what clients send, those included who are not let
// in. That must not be taken for its own word that it can't write, upon which it
// is restarted.
func TestClientsWordsAreNoFailedWrites(t *testing.T) {
	e := guarded(t)
	for _, words := range []string{"no space left on device", "Filestore [WORK_EVENTS_0] Critical write error: disk quota exceeded"} {
		if _, err := nats.Connect(e.URL(), nats.UserInfo(words, "x"), nats.Name(words)); !errors.Is(err, nats.ErrAuthorization) {
			t.Fatal(err)
		}
		c, refused := as(t, e, "submit", nats.Name(words))
		m := nats.NewMsg("work.submit.email")
		m.Reply = "$JS.API.write.error"
		if err := errors.Join(c.Conn().Publish("write error.x", nil), c.Conn().PublishMsg(m), c.Conn().FlushTimeout(testTimeout)); err != nil && !errors.Is(err, nats.ErrBadSubject) {
			t.Fatal(err)
		}
		for len(refused) > 0 {
			<-refused
		}
	}
	if why := e.srv.fault(); why != "" {
		t.Errorf("the server is to be restarted: %s", why)
	}
}

// What the server itself says of its files is heard.
func TestFailedWritesAreHeard(t *testing.T) {
	disk := errors.New("write 1.blk: no space left on device")
	for _, say := range []func(*natsLog){
		func(l *natsLog) { l.Errorf("Filestore [WORK_EVENTS_0] Critical write error: %v", disk) },
		func(l *natsLog) {
			l.Errorf("JetStream failed to store a msg on stream '%s > %s': %v", "WORK", "WORK_INTAKE", disk)
		},
		func(l *natsLog) {
			l.Warnf("Consumer '%s > %s > %s' error on write store state from purge: %v", "WORK", "S", "c", disk)
		},
		func(l *natsLog) { l.Warnf("  Error recreating stream %q: %v", "WORK_INTAKE", disk) },
		func(l *natsLog) {
			l.Errorf("JetStream stream '%s > %s' critical write error: %v", "WORK", "S", errors.New("bad file"))
		},
	} {
		l := &natsLog{log: slog.New(slog.DiscardHandler)}
		if say(l); l.failedWrite() == "" {
			t.Error("a failed write is not heard")
		}
	}
}

// A client that does what it may not over and over does not fill the disk with
// what the server says of it; a failed write is heard all the same.
func TestServersLogIsBounded(t *testing.T) {
	var text bytes.Buffer
	l := &natsLog{log: slog.New(slog.NewTextHandler(&text, nil))}
	begin := time.Now()
	for range 100 * maxSaid {
		l.Errorf("Publish Violation - Subject %q", "x")
	}
	l.Errorf("Filestore [WORK_EVENTS_0] Critical write error: bad file")
	seconds := int(time.Since(begin)/time.Second) + 1
	if n := bytes.Count(text.Bytes(), []byte("\n")); n > seconds*maxSaid+1 || n < maxSaid {
		t.Errorf("%d lines in %d seconds", n, seconds)
	}
	if l.failedWrite() == "" || !bytes.Contains(text.Bytes(), []byte("bad file")) {
		t.Error("the failed write is not heard")
	}
}

// Nobody has the server restarted by what it quotes in its log: not who can't log
// in, not a user whose request it refuses, not a worker by what it acknowledges.
func TestNobodyAsksForARestart(t *testing.T) {
	c := config.Default()
	c.NATS.Users = []config.NATSUser{user("work", access.Work)}
	e := mustStart(t, Options{Config: c, Dir: t.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off})
	before := e.srv.ns()
	for _, words := range []string{"no space left on device", "write error", "Critical write error: x", "Filestore [x] Critical write error: x"} {
		if _, err := nats.Connect(e.URL(), nats.UserInfo(words, words), nats.Name(words)); !errors.Is(err, nats.ErrAuthorization) {
			t.Fatal(err)
		}
		nc, err := nats.Connect(e.URL(), nats.UserInfo("work", testPassword), nats.Name(words))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if _, err := nc.Request("$JS.work.API.STREAM.MSG.GET.OBJ_work_blobs", fmt.Appendf(nil, `{%q:1}`, words), testTimeout); err != nil {
			t.Fatal(err)
		}
		if why := e.srv.fault(); why != "" {
			t.Errorf("a client has the server restarted: %s", why)
		}
	}
	l := &natsLog{log: slog.New(slog.DiscardHandler)}
	l.Warnf("JetStream consumer 'WORK > WORK_DISPATCH > email' bad NAK delay value: %q", "' critical write error: no space left on device")
	if l.failedWrite() != "" {
		t.Error("an acknowledgement has the server restarted")
	}
	if e.srv.ns() != before {
		t.Error("the server was restarted")
	}
}
