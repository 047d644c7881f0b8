// Package need is what tests need of the machine that they run on: programs that they
// can’t do without, and addresses to listen on.
package need

import (
	"os"
	"os/exec"
	"testing"
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
