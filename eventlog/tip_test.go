package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// scriptedTips is a log whose server answers each request for the stream's
// state with the next round of answers, the last round again and again. They
// stand for servers of a cluster whose answers can't be had at will.
func scriptedTips(t *testing.T, replicated bool, rounds ...[]string) *JetStream {
	s := startServer(t, t.TempDir(), func(o *server.Options) { o.JetStream = false })
	nc, err := inProcess(s)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	l := NewJetStream(Config{Connect: inProcess(s), AckTimeout: 2 * time.Second}, replicated)
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	_, err = nc.Subscribe("$JS.API.STREAM.INFO.WORK_EVENTS_0", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		for _, answer := range rounds[0] {
			_ = m.Respond([]byte(answer))
		}
		if len(rounds) > 1 {
			rounds = rounds[1:]
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const (
	answerAt = "2026-01-02T03:04:05Z"
	longAgo  = "2026-01-02T02:00:00Z"
	justNow  = "2026-01-02T03:04:04.5Z"
)

// tipAnswer is a server's word on the log's end; since is empty for one that is
// not the leader.
func tipAnswer(last int, since string) string {
	leader := ""
	if since != "" {
		leader = fmt.Sprintf(`"leader_since":%q,`, since)
	}
	return fmt.Sprintf(`{"created":%q,"ts":%q,"state":{"messages":%d,"first_seq":1,"last_seq":%d},"cluster":{%s"leader":"a","replicas":[{"name":"b"}]}}`, longAgo, answerAt, last, last, leader)
}

// Whoever is not the leader is not believed, nor is a leader's first word.
func TestLastIsTheLeaders(t *testing.T) {
	follower, leader := tipAnswer(7, ""), tipAnswer(9, longAgo)
	for _, c := range []struct {
		name   string
		rounds [][]string
		want   int // 0: unreachable
	}{
		{"the leader alone", [][]string{{leader}}, 9},
		{"a follower first, each time", [][]string{{follower, leader}}, 9},
		{"no leader at first", [][]string{{follower}, {follower, follower}, {follower, leader}}, 9},
		{"no leader", [][]string{{follower}}, 0},
		{"a new leader", [][]string{{tipAnswer(7, justNow)}, {tipAnswer(8, justNow)}, {leader}}, 8},
		{"a new leader, behind a follower", [][]string{{follower}, {follower, tipAnswer(7, justNow)}, {follower, tipAnswer(8, justNow)}, {leader}}, 8},
		{"two new leaders", [][]string{{tipAnswer(7, "2026-01-02T03:04:04.3Z")}, {tipAnswer(7, justNow)}, {tipAnswer(8, justNow)}, {leader}}, 8},
		{"not a cluster", [][]string{{strings.Replace(tipAnswer(5, ""), `"cluster"`, `"x"`, 1)}}, 5},
		{"one replica", [][]string{{strings.Replace(tipAnswer(5, ""), `"replicas"`, `"x"`, 1)}}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := scriptedTips(t, true, c.rounds...)
			tip, err := l.Last(logtest.Context(t))
			if c.want == 0 {
				if !errors.Is(err, ErrUnreachable) {
					t.Fatalf("%+v, %v", tip, err)
				}
				return
			}
			if err != nil || int(tip.Seq) != c.want {
				t.Fatalf("%+v, %v, want %d", tip, err, c.want)
			}
		})
	}
}

// An end before what is known is doubted for a while.
func TestEndBeforeWhatIsKnownIsDoubted(t *testing.T) {
	deposed, leader := tipAnswer(7, longAgo), tipAnswer(9, longAgo)
	l := scriptedTips(t, true, []string{deposed}, []string{deposed}, []string{deposed}, []string{leader})
	if tip, err := l.Reached(logtest.Context(t), 9); err != nil || tip.Seq != 9 {
		t.Fatalf("%+v, %v", tip, err)
	}
	l = scriptedTips(t, true, []string{deposed})
	ctx, cancel := context.WithTimeout(logtest.Context(t), time.Second)
	defer cancel()
	if _, err := l.Reached(ctx, 9); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it did not go on asking: %v", err)
	}
	l = scriptedTips(t, false, []string{deposed})
	if tip, err := l.Reached(logtest.Context(t), 9); err != nil || tip.Seq != 7 {
		t.Fatalf("a single server: %+v, %v", tip, err)
	}
}
