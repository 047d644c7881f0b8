//go:build windows

package backup

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock takes a lock on the file without waiting. The system releases it when the
// process ends, however it ends.
func flock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
}
