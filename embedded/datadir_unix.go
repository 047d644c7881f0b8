//go:build unix

package embedded

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FreeSpace returns the number of bytes that this process may still write to the
// file system of dir.
func FreeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space of %s: %w", dir, err)
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}
