package embedded

import (
	"log/slog"
	"regexp"
	"sync"
	"time"
)

const (
	// peerSaid is the time between two lines about a node that can't be reached.
	peerSaid = time.Minute
	// peerQuiet is the time without a failed try after which it counts as reached: a try
	// takes at most a second, and the next comes a second later, but for a slow resolver.
	peerQuiet = 15 * time.Second
	// maxPeers bounds the addresses that are kept.
	maxPeers = 64
)

// routeFailed is the server's message about a link to another node that can't be made. It
// comes each second for each of the links to that node.
var routeFailed = regexp.MustCompile(`^Error trying to connect to route \(attempt \d+\): ((?:dial tcp ([^ ]+): )?.*)$`)

// lostPeers says once that a node can't be reached, once a minute while that lasts, and once
// that it has ended, in place of the server's messages.
type lostPeers struct {
	log *slog.Logger

	mu sync.Mutex // guards what follows
	at map[string]*lostPeer
}

type lostPeer struct {
	since, said time.Time
	tries       int // that failed
	quiet       *time.Timer
}

// noted takes a message of the server; false: it is about something else.
func (l *lostPeers) noted(text string) bool {
	m := routeFailed.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	why, at := m[1], m[2]
	if at == "" {
		at = why
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, p := time.Now(), l.at[at]
	switch {
	case p == nil && len(l.at) >= maxPeers:
	case p == nil:
		if l.at == nil {
			l.at = map[string]*lostPeer{}
		}
		p = &lostPeer{since: now, said: now, tries: 1}
		p.quiet = time.AfterFunc(peerQuiet, func() { l.reached(at, p) })
		l.at[at] = p
		l.log.Warn("another node can't be reached: trying again each second", "at", at, "error", why)
	default:
		p.tries++
		p.quiet.Reset(peerQuiet)
		if now.Sub(p.said) >= peerSaid {
			p.said = now
			l.log.Warn("another node still can't be reached", "at", at, "error", why, "for", now.Sub(p.since).Round(time.Second))
		}
	}
	return true
}

// reached says that tries to reach a node fail no longer.
func (l *lostPeers) reached(at string, p *lostPeer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at[at] != p {
		return
	}
	delete(l.at, at)
	l.log.Info("another node is reached again", "at", at, "after", (time.Since(p.since) - peerQuiet).Round(time.Second))
}

// forget ends what is known, when the server stops: it says nothing of it.
func (l *lostPeers) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at, p := range l.at {
		p.quiet.Stop()
		delete(l.at, at)
	}
}
