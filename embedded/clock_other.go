//go:build !linux

package embedded

import "time"

// synced returns nil: the machine can't tell here whether its clock is synchronised.
func synced() func() (time.Time, bool) { return nil }

// sinceBoot can't tell here for how long the machine has run.
func sinceBoot() (boot string, up time.Duration, ok bool) { return "", 0, false }

// suspended can't tell here for how long the machine has slept.
func suspended() time.Duration { return 0 }
