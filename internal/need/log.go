package need

import (
	"bytes"
	"log/slog"
	"os"
	"sync"
	"testing"
)

// Verbose is the environment variable that has tests print what their engines log.
const Verbose = "VERBOSE"

// maxShown bounds what Logger shows of a log, in bytes.
const maxShown = 32 << 10

// Logger returns a logger whose end is shown if the test fails. With Verbose all is printed
// as it comes.
func Logger(t testing.TB) *slog.Logger {
	if os.Getenv(Verbose) != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	kept := new(Log)
	t.Cleanup(func() {
		if t.Failed() {
			text := kept.String()
			t.Logf("the log ends with\n%s", text[max(0, len(text)-maxShown):])
		}
	})
	return slog.New(slog.NewTextHandler(kept, nil))
}

// Log keeps what is written to it, and may be read meanwhile. The zero Log is empty.
type Log struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
