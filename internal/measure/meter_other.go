//go:build !linux

package measure

// SelfResident returns 0: this system does not tell.
func SelfResident() float64 { return 0 }
