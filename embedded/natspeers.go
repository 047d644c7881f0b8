package embedded

import (
	"cmp"
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	// peerSaid is the time between two lines about a server that can't be reached.
	peerSaid = time.Minute
	// peerQuiet is the time without a failed try after which it counts as reached: a try
	// takes at most a second, and the next comes a second later, or edgeRetry and up to as
	// much again for a hub, but for a slow resolver.
	peerQuiet = 15 * time.Second
	// maxPeers bounds the addresses that are kept.
	maxPeers = 64
)

// everyFailure is how many failed tries the server says one message about: lostPeers needs
// them all, of the first link too, of which the server by itself tells one in 3,600.
const everyFailure = 1

// dialFailed is the server's message about a link to another node, or to the hub, that can't
// be made. It comes each second for each of the links to a node.
var dialFailed = regexp.MustCompile(`^Error trying to connect (?:to route|as leafnode to remote server "([^"]*)") \(attempt \d+\): ((?:dial tcp ([^ ]+): )?.*)$`)

// lostPeers says once that a node or the hub can't be reached, once a minute while that
// lasts, and once that it has ended, in place of the server's messages.
type lostPeers struct {
	log *slog.Logger

	mu sync.Mutex           // guards what follows
	at map[string]*lostPeer // by the address of a node; the hub's is empty
}

type lostPeer struct {
	since, said time.Time
	tries       int // that failed
	quiet       *time.Timer
}

// noted takes a message of the server; false: it is about something else.
func (l *lostPeers) noted(text string) bool {
	m := dialFailed.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	hub, why, at := m[1], m[2], m[3]
	who, key := "another node", cmp.Or(at, why)
	if hub != "" { // a hub of several nodes is tried at the next one each time
		who, key = "the hub", ""
	}
	at = cmp.Or(hub, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	now, p := time.Now(), l.at[key]
	switch {
	case p == nil && len(l.at) >= maxPeers:
	case p == nil:
		if l.at == nil {
			l.at = map[string]*lostPeer{}
		}
		p = &lostPeer{since: now, said: now, tries: 1}
		p.quiet = time.AfterFunc(peerQuiet, func() { l.reached(who, key, p) })
		l.at[key] = p
		l.log.Warn(who+" can't be reached: trying again every second or two", "at", at, "error", why)
	default:
		p.tries++
		p.quiet.Reset(peerQuiet)
		if now.Sub(p.said) >= peerSaid {
			p.said = now
			l.log.Warn(who+" still can't be reached", "at", at, "error", why, "for", now.Sub(p.since).Round(time.Second))
		}
	}
	return true
}

// reached says that tries to reach a server fail no longer.
func (l *lostPeers) reached(who, key string, p *lostPeer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at[key] != p {
		return
	}
	delete(l.at, key)
	log := l.log
	if key != "" {
		log = log.With("at", key)
	}
	log.Info(who+" is reached again", "after", (time.Since(p.since) - peerQuiet).Round(time.Second))
}

// forget ends what is known, when the server stops: it says nothing of it.
func (l *lostPeers) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.at {
		p.quiet.Stop()
		delete(l.at, key)
	}
}
