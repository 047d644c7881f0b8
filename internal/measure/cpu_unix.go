//go:build linux || darwin

package measure

import (
	"syscall"
	"time"
)

// SelfCPU returns the processor time, of user and system, that this process has used, or 0
// where the system does not tell.
func SelfCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
