//go:build !linux && !darwin

package workers

import (
	"runtime/metrics"
	"time"
)

// processCPU is the Go runtime's estimate of the processor time that this process
// has used, as of its last garbage collection.
func processCPU() time.Duration {
	s := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(s)
	return time.Duration((s[0].Value.Float64() - s[1].Value.Float64()) * float64(time.Second))
}
