package embedded

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// synced returns machineClock, or nil if the kernel can't be asked.
func synced() func() (time.Time, bool) {
	if _, err := unix.Adjtimex(&unix.Timex{}); err != nil {
		return nil
	}
	return machineClock
}

// sinceBoot returns a name of this run of the machine, and how long it lasts, sleep included:
// no setting of the clock changes it.
func sinceBoot() (boot string, up time.Duration, ok bool) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	var t unix.Timespec
	if err == nil {
		err = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	}
	boot = strings.TrimSpace(string(id))
	return boot, time.Duration(t.Nano()), err == nil && boot != "" && !strings.Contains(boot, " ")
}

// machineClock returns the kernel's time, and whether the kernel says that it is
// synchronised (by NTP or the like). Setting the clock by hand ends that.
func machineClock() (time.Time, bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil || state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 {
		return time.Time{}, false
	}
	nanos := int64(t.Time.Usec)
	if t.Status&unix.STA_NANO == 0 {
		nanos *= 1000
	}
	return time.Unix(int64(t.Time.Sec), nanos), true
}

// suspended returns how long the machine has slept since it was started: time
// that Go's monotonic clock leaves out.
func suspended() time.Duration {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
