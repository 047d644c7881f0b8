//go:build !linux && !darwin

package measure

import "time"

// SelfCPU returns 0: this system does not tell.
func SelfCPU() time.Duration { return 0 }
