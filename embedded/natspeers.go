package embedded

import (
	"cmp"
	"errors"
	"log/slog"
	"regexp"
	"sync"

	"github.com/streamwright/streamwright/internal/lograte"
)

// maxPeers bounds the addresses that are kept.
const maxPeers = 64

// everyFailure is how many failed tries the server says one message about: lostPeers needs
// them all, of the first link too, of which the server by itself tells one in 3,600. The next
// try comes a second or two later, or edgeRetry and up to as much again for a hub, and must be
// heard within [lograte.Quiet].
const everyFailure = 1

// dialFailed is the server's message about a link to another node, or to the hub, that can't
// be made. It comes each second for each of the links to a node.
var dialFailed = regexp.MustCompile(`^Error trying to connect (?:to route|as leafnode to remote server "([^"]*)") \(attempt \d+\): ((?:dial tcp ([^ ]+): )?.*)$`)

// lostPeers tells of nodes, or of a hub, that can't be reached, in place of the server's
// messages.
type lostPeers struct {
	log *slog.Logger

	mu sync.Mutex                  // guards what follows
	at map[string]*lograte.Trouble // by the address of a node; the hub's is empty
}

// noted takes a message of the server; false: it is about something else.
func (l *lostPeers) noted(text string) bool {
	m := dialFailed.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	hub, why := m[1], errors.New(m[2])
	l.mu.Lock()
	defer l.mu.Unlock()
	if hub != "" { // one of several nodes is tried at the next one each time
		l.trouble("", l.log, "the hub can't be reached").Failed(why, "at", hub)
		return true
	}
	at := cmp.Or(m[3], m[2])
	l.trouble(at, l.log.With("at", at), "another node can't be reached").Failed(why)
	return true
}

// trouble is called under the lock.
func (l *lostPeers) trouble(key string, log *slog.Logger, what string) *lograte.Trouble {
	if l.at[key] == nil {
		if l.at == nil || len(l.at) >= maxPeers {
			l.stop()
			l.at = map[string]*lograte.Trouble{}
		}
		l.at[key] = lograte.NewTrouble(log, what)
	}
	return l.at[key]
}

// forget ends what is known, when the server stops: it says nothing of it.
func (l *lostPeers) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

func (l *lostPeers) stop() {
	for _, t := range l.at {
		t.Stop()
	}
}
