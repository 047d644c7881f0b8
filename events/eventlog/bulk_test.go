package eventlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// TestBulkReadsAsAConsumerDoes reads a log with large events and foreign messages
// both ways, from its start and from behind it, whole and in part.
func TestBulkReadsAsAConsumerDoes(t *testing.T) {
	s := startServer(t, t.TempDir(), func(o *server.Options) { o.MaxPayload = 2 << 20 })
	foreign := 0
	l := openLog(t, Config{Connect: inProcess(s), OnForeign: func(events.Seq, string, string) { foreign++ }})
	last := events.Seq(0)
	for i := range 40 {
		if i%10 == 3 {
			m := nats.NewMsg("work.event.0.email.queued")
			m.Header["Nats-Msg-Id"] = []string{fmt.Sprintf("made.up.%d", i)}
			if _, err := l.reader.RequestMsg(m, testTimeout); err != nil {
				t.Fatal(err)
			}
			last++
		}
		last = mustAppend(t, l, last, slices.Concat(decision(2, strings.Repeat("x", i*i*i*10)), decision(1, "y")))
	}
	for _, r := range []struct{ from, to events.Seq }{{0, last}, {1, last}, {11, last}, {1, last - 9}} {
		l.bulkLeast = 1 << 40
		foreign = 0
		want, skipped := read(t, l, r.from, r.to), foreign
		l.bulkLeast, foreign = 0, 0
		tip, err := l.Last(testContext(t))
		if err != nil || !l.worthBulk(tip, max(r.from, 1), r.to) {
			t.Fatalf("%d to %d is not read in bulk: %v", r.from, r.to, err)
		}
		if got := read(t, l, r.from, r.to); !slices.Equal(got, want) || foreign != skipped {
			t.Fatalf("read %d to %d: %d events and %d foreign messages, a consumer brings %d and %d", r.from, r.to, len(got), foreign, len(want), skipped)
		}
	}
}

// read lists the events of a stretch, as they are stored.
func read(t *testing.T, l Log, from, to events.Seq) (out []string) {
	t.Helper()
	err := l.Read(testContext(t), from, to, func(g Group) error {
		for _, ev := range g.Events {
			data, err := ev.AppendJSON(nil)
			if err != nil {
				return err
			}
			out = append(out, string(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBulkEnds: a reader that has had enough ends a bulk read, with its own error.
func TestBulkEnds(t *testing.T) {
	s := startServer(t, t.TempDir(), nil)
	l := openLog(t, Config{Connect: inProcess(s)})
	l.bulkLeast = 0
	last := mustAppend(t, l, 0, singles(900, "a"))
	enough := errors.New("enough")
	if err := l.Read(testContext(t), 1, last, func(Group) error { return enough }); !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

// TestWithoutBulk: where the server makes no snapshot, a consumer reads.
func TestWithoutBulk(t *testing.T) {
	s := startServer(t, t.TempDir(), func(o *server.Options) {
		o.Users = []*server.User{{Username: "engine", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.SNAPSHOT.>"}}}}}
	})
	l := openLog(t, Config{Connect: dialURL("", nats.InProcessServer(s), nats.UserInfo("engine", "p"))})
	last := mustAppend(t, l, 0, singles(50, "a"))
	l.bulkLeast, l.cfg.AckTimeout = 0, time.Second
	if got := read(t, l, 0, last); len(got) != 50 {
		t.Fatalf("%d events", len(got))
	}
}

// TestStoredID compares it with what nats.go reads.
func TestStoredID(t *testing.T) {
	for _, h := range []string{
		"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n", "NATS/1.0\r\nA: b\r\nNats-Msg-Id:  \ta \r\nNats-Msg-Id: b\r\n\r\n", "NATS/1.0\nNats-Msg-Id:a\n\n",
		"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Stream: S\r\n\r\n", "NATS/1.0\r\nNats-Msg-Id: a\r\n", "NATS/1.0\r\nnats-msg-id: a\r\n\r\n",
		"NATS/1.0\r\nNats-Msg-Id: a\r\nB\r\n\r\n", "NATS/1.0\r\n: a\r\nNats-Msg-Id: a\r\n\r\n", "NATS/1.0\r\n\r\nNats-Msg-Id: a\r\n\r\n", "", "x",
		"NATS/1.0 503\r\nNats-Msg-Id: a\r\n\r\n", "NATS/1.0 5\r\nNats-Msg-Id: a\r\n\r\n", "NATS/1.0\r\nNats-Msg-Id:\r\nNats-Msg-Id: b\r\n\r\n",
	} {
		want := ""
		if parsed, err := nats.DecodeHeadersMsg([]byte(h)); err == nil {
			want = headerID(parsed)
		}
		if got := storedID([]byte(h)); got != want {
			t.Errorf("%q: %q, want %q", h, got, want)
		}
	}
}
