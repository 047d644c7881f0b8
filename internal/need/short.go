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
