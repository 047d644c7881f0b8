//go:build !linux

package embedded

import "time"

// machineClock can't tell here whether the machine's clock is synchronised.
func machineClock() (time.Time, bool) { return time.Time{}, false }

// suspended can't tell here for how long the machine has slept.
func suspended() time.Duration { return 0 }
