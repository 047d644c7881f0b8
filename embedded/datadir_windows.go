//go:build windows

package embedded

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// FreeSpace returns the number of bytes that this process may still write to the
// file system of dir.
func FreeSpace(dir string) (uint64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return free, nil
}
