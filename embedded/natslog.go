package embedded

import (
	"fmt"
	"log/slog"
	"sync"
)

// natsLog passes the server's warnings and errors on to slog and keeps the
// first fatal one: the server reports a failed start only there.
type natsLog struct {
	log *slog.Logger

	mu    sync.Mutex
	fatal string // guarded by mu
}

func (l *natsLog) Noticef(string, ...any) {}
func (l *natsLog) Debugf(string, ...any)  {}
func (l *natsLog) Tracef(string, ...any)  {}

func (l *natsLog) Warnf(format string, v ...any)  { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *natsLog) Errorf(format string, v ...any) { l.log.Error(fmt.Sprintf(format, v...)) }

func (l *natsLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == "" {
		l.fatal = fmt.Sprintf(format, v...)
	}
}

func (l *natsLog) failed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
