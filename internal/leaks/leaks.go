// Package leaks has the packages' tests end with nothing left running.
package leaks

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Check runs the tests of a package that run a NATS server in their process, or an
// engine, and fails if any goroutine of ours is left at the end. The goroutines that
// the server and its client always leave are known and ignored; a server that has not
// been stopped leaves others too.
//
// Such tests wait more than they compute, so four parallel tests run at once however
// few processors there are; the flag -parallel still overrides that.
func Check(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // testing has no such flag any more
	}
	goleak.VerifyTestMain(m, known...)
}

// Since returns a function that fails a test if there are goroutines that were not there when
// Since was called, or, on Linux, open files and sockets.
func Since(t testing.TB) (check func()) {
	before, files := goleak.IgnoreCurrent(), openFiles()
	return func() {
		t.Helper()
		goleak.VerifyNone(t, append([]goleak.Option{before}, known...)...)
		left := opened(files)
		for end := time.Now().Add(closeWithin); len(left) > 0 && time.Now().Before(end); left = opened(files) {
			time.Sleep(closeLook)
		}
		if len(left) > 0 {
			t.Errorf("found open files: %v", left)
		}
	}
}

// closeWithin is how long after its end a NATS server may still close files, and closeLook the
// time between two looks.
const (
	closeWithin = 3 * time.Second
	closeLook   = 20 * time.Millisecond
)

// opened returns the open files that are not among some.
func opened(before map[string]bool) (left []string) {
	for file := range openFiles() {
		if !before[file] {
			left = append(left, file)
		}
	}
	return left
}

// blocks are files that a server, 2.15, leaves open. It stops the streams that it has when its
// shutdown begins (jsAccount.delete), and one that is just being made is added after that
// (addStreamWithAssignmentAndMode): nobody stops that, and its flushStreamStateLoop, one of
// known, stays too. And fileStore.stop lets go of its lock, to write its state, when it has
// closed the blocks and does not refuse writes yet: a write then opens the last block again.
const blocks = ".blk"

// openFiles returns what this process has open, but for what the runtime shares, and blocks.
func openFiles() map[string]bool {
	const fds = "/proc/self/fd"
	open := map[string]bool{}
	entries, _ := os.ReadDir(fds) // none but on Linux
	for _, e := range entries {
		file, err := os.Readlink(filepath.Join(fds, e.Name()))
		if err == nil && !strings.HasPrefix(file, "anon_inode:") && filepath.Ext(strings.TrimSuffix(file, " (deleted)")) != blocks {
			open[file] = true
		}
	}
	return open
}

// known are the goroutines that are always left.
var known = []goleak.Option{
	// Of the server, 2.15: the loops of a file store whose stream is deleted under
	// writes, and with them, or with a stream made while it stops, its clock.
	goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*msgBlock).flushLoop"),
	goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
	goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	// Of the server, 2.15: what waits for the answer to a mirror's request, for up to
	// 30 seconds, though its server has stopped.
	goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*stream).setupMirrorConsumer.func3"),
	// Of nats.go, 1.55: what its object store starts for a put that is over before
	// it has begun waits for ever. Only tests put in that way.
	goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
}
