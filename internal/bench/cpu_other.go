//go:build !linux && !darwin

package bench

import "time"

// processCPU is not told by this system.
func processCPU() time.Duration { return 0 }
