package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// natsLog passes the server's warnings and errors on to slog and keeps the
// first fatal one, and whether a file could not be written: the server reports a
// failed start only there, and of a failed write its clients just get no answer.
type natsLog struct {
	log *slog.Logger
	hub *hubLink // told of errors that concern it; nil: there is none
	// peers is told of nodes, or of a hub, that can't be reached; nil: there are none.
	peers *lostPeers

	mu     sync.Mutex
	fatal  string // guarded by mu
	failed string // guarded by mu: the first failed write of this start

	second time.Time // guarded by mu: the second that said counts
	said   int       // guarded by mu
	silent int       // guarded by mu: messages not passed on since the last that was
}

// maxSaid bounds the messages passed on in a second: clients cause them, one
// with each publish that they may not make.
const maxSaid = 50

// writeErrors are the server's messages about files that it could not write. It
// takes no more writes to such a stream until it is restarted. They are matched
// from their beginning: other messages quote clients, even ones that may not
// log in, and a client must not be able to cause a restart.
var writeErrors = regexp.MustCompile(`^(Filestore \[[^\]]*\] Critical write error: ` +
	`|JetStream (stream|consumer) '[^']*' critical write error: ` +
	`|(JetStream failed to store a msg on stream '[^']*'|Consumer '[^']*' error on write store state from purge| *Error recreating stream "[^"]*"): .*(no space left on device|disk quota exceeded))`)

// storeMessages are the prefixes of the server's own messages about its files,
// which are always passed on.
var storeMessages = []string{"Filestore [", "JetStream ", "Consumer '", "Filesystem ", "Error recreating stream "}

func ofStore(text string) bool {
	text = strings.TrimLeft(text, " ")
	return slices.ContainsFunc(storeMessages, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

func (l *natsLog) Noticef(string, ...any) {}
func (l *natsLog) Debugf(string, ...any)  {}
func (l *natsLog) Tracef(string, ...any)  {}

func (l *natsLog) Warnf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.noteWrite(text)
	l.say(slog.LevelWarn, text)
}

func (l *natsLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.noteWrite(text)
	if l.hub.noted(text) || l.peers != nil && l.peers.noted(text) {
		return
	}
	l.say(slog.LevelError, text)
}

// say passes a message on, unless there have been too many that clients cause.
func (l *natsLog) say(level slog.Level, text string) {
	l.mu.Lock()
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.said = now, 0
	}
	if l.said++; l.said > maxSaid && !ofStore(text) {
		l.silent++
		l.mu.Unlock()
		return
	}
	silent := l.silent
	l.silent = 0
	l.mu.Unlock()
	if silent > 0 {
		l.log.Log(context.Background(), level, text, "more_since_last", silent)
		return
	}
	l.log.Log(context.Background(), level, text)
}

// noteWrite keeps a message that tells of a failed write.
func (l *natsLog) noteWrite(text string) {
	if !writeErrors.MatchString(text) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == "" {
		l.failed = text
	}
}

// failedWrite returns the first message of this start about a failed write; empty:
// there was none.
func (l *natsLog) failedWrite() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// begin forgets what an earlier start has left.
func (l *natsLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal, l.failed = "", ""
}

func (l *natsLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == "" {
		l.fatal = fmt.Sprintf(format, v...)
	}
}

func (l *natsLog) fatalError() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
