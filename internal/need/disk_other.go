//go:build !linux

package need

import "testing"

// Disk is a small file system.
type Disk struct{ Dir string }

// SmallDisk skips the test: file systems are mounted on Linux alone.
func SmallDisk(t testing.TB, _ int64) Disk {
	t.Skip("small file systems are mounted on Linux alone")
	return Disk{}
}

// Fill is not reached.
func (Disk) Fill(testing.TB, int64) {}

// Room is not reached.
func (Disk) Room(testing.TB) int64 { return 0 }

// Free is not reached.
func (Disk) Free(testing.TB) {}
