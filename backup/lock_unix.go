//go:build unix

package backup

import (
	"os"

	"golang.org/x/sys/unix"
)

// flock takes the file's advisory lock without waiting. The system releases it when
// the process ends, however it ends.
func flock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
