//go:build unix

package flock

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A copy of the file, as a process that is being started has it, does not keep the
// lock.
func TestCloseReleasesDespiteACopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	a := open(t, path)
	if err := Lock(a); err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(a.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if err := Close(a); err != nil {
		t.Fatal(err)
	}
	if err := Lock(open(t, path)); err != nil {
		t.Fatalf("the copy keeps the lock: %v", err)
	}
}
