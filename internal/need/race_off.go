//go:build !race

package need

// Race reports whether the test was built with the race detector.
const Race = false
