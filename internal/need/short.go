package need

import "testing"

// Seconds skips a test that takes a second or more where only short ones are asked for
// (go test -short).
func Seconds(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds, and -short is set")
	}
}

// NoRace skips a test under the race detector, which slows it down many times and has
// nothing to find in it; why says why not.
func NoRace(t testing.TB, why string) {
	t.Helper()
	if Race {
		t.Skip("not under the race detector: " + why)
	}
}
