// Package need has what the tests of many packages need: programs that they can't do
// without, addresses to listen on, small disks, time, and a way to wait.
package need

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// NoSkip is the environment variable that turns skips for want of a program
// into failures; CI sets it.
const NoSkip = "STREAMWRIGHT_NO_SKIP"

// Program returns the path of the first of some programs that is there. If none
// is, the test is skipped, or fails if NoSkip is set.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "none of these programs is on the machine: %v", names)
	return ""
}

// Missing skips the test for want of something, or fails it if NoSkip is set.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(NoSkip) != "" {
		t.Fatalf(format+" (and "+NoSkip+" is set)", args...)
	}
	t.Skipf(format, args...)
}

// Seconds skips a test that takes a second or more where only short ones are asked
// for (go test -short).
func Seconds(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds, and -short is set")
	}
}

// NoRace skips a test under the race detector, which slows it down many times and
// has nothing to find in it; why says why not.
func NoRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip("not under the race detector: " + why)
	}
}

// NoReload skips a test that has an embedded NATS server read its accounts again, as a new
// namespace does, under the race detector: nats-server 2.15 reads its options for a direct get
// without the lock under which a reload replaces them.
func NoReload(t testing.TB) {
	t.Helper()
	NoRace(t, "nats-server reads its options without a lock")
}

// patience is generous: it only ends a test that fails. It is longer than anything that the
// engine does late on purpose, as it lets a log rest for two minutes once it was moved.
const patience = 4 * time.Minute

// Eventually waits for a condition that nothing signals, and fails the test if it
// never comes.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
