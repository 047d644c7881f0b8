package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/streamwright/streamwright/internal/lograte"
	"github.com/streamwright/streamwright/internal/need"
)

// A node that is down for three minutes costs a line when that begins, one a minute, and one
// when it ends, however many links to it are tried.
func TestALostNodeIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		l := &natsLog{log: log, peers: &lostPeers{log: log}}
		for second := range 180 {
			for range 4 {
				l.Errorf("Error trying to connect to route (attempt %v): %v", second+1, "dial tcp 10.0.0.2:6222: connect: connection refused")
			}
			time.Sleep(time.Second)
		}
		time.Sleep(lograte.Quiet)
		synctest.Wait()
		said := text.String()
		for what, n := range map[string]int{"level=ERROR": 0, "another node can't be reached: trying": 1, "it still fails": 2, "it works again": 1, "\n": 4} {
			if got := strings.Count(said, what); got != n {
				t.Errorf("%d times %q, want %d:\n%s", got, what, n, said)
			}
		}
		text.Reset()
		for try := range 60 { // at each address of the hub in turn
			l.Errorf("Error trying to connect as leafnode to remote server %q (attempt %v): %v", []string{"TLS.example:7422", "10.0.0.3:7422"}[try%2], try+1, "dial tcp 10.0.0.3:7422: i/o timeout")
			time.Sleep(2*edgeRetry + time.Second)
		}
		time.Sleep(lograte.Quiet)
		synctest.Wait()
		said = text.String()
		for what, n := range map[string]int{"level=ERROR": 0, "the hub can't be reached: trying": 1, "it still fails": 2, "it works again\" after=2m57s": 1, "\n": 4} {
			if got := strings.Count(said, what); got != n {
				t.Errorf("%d times %q, want %d:\n%s", got, what, n, said)
			}
		}
		text.Reset()
		l.Errorf("Error trying to connect to route (attempt 1): lookup b: no such host")
		l.peers.forget()
		time.Sleep(time.Hour)
		if got := strings.Count(text.String(), "\n"); got != 1 {
			t.Errorf("%d lines:\n%s", got, text.String())
		}
	})
}

// A real node whose peers are down, come, and of which one ends again, writes no ERROR, and a
// line each time. It starts first: of two servers that have each dialed the other, only one
// goes on dialing when the link is lost.
func TestALostNodeInARealCluster(t *testing.T) {
	all := clusterOptions(t, 3)
	var text need.Log
	all[0].Logger = slog.New(slog.NewTextHandler(&text, nil))
	first := &node{newEngine(all[0]), all[0]}
	t.Cleanup(func() { first.stop(t) })
	if err := errors.Join(first.cfg.Validate(), first.life.start(testContext(t), first.parts()[0], first.serverParts()[0])); err != nil {
		t.Fatal(err)
	}
	missing := all[2].Cluster.Listen
	lost := "another node can't be reached: trying again until it works\" part=nats-server at=" + missing
	peers := first.srv.log.peers
	need.Eventually(t, "the server tells that it can't reach the missing node", func() bool {
		peers.mu.Lock()
		defer peers.mu.Unlock()
		return peers.at[missing] != nil
	})
	if said := text.String(); strings.Count(said, lost) != 1 || strings.Contains(said, "it works again") {
		t.Errorf("of a node that is down:\n%s", said)
	}
	nodes := startNodes(t, all[1:])
	last := nodes[1].srv
	linked := func() int { return first.srv.ns().NumRoutes() }
	whole := linked()
	last.shutDown()
	need.Eventually(t, "its links are gone", func() bool { return linked() < whole })
	said := text.String()
	if n := strings.Count(said, lost); n > 2 {
		t.Errorf("%d lines about the lost node:\n%s", n, said)
	}
	if strings.Contains(said, "level=ERROR") {
		t.Errorf("a start, and a node that ends, write errors:\n%s", said)
	}
}
