package need

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a small file system.
type Disk struct{ Dir string }

// SmallDisk mounts a file system of so many bytes, until the end of the test. It
// takes the right to mount.
func SmallDisk(t testing.TB, bytes int64) Disk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		Missing(t, "a small file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return Disk{Dir: dir}
}

func (d Disk) ballast() string { return filepath.Join(d.Dir, "ballast") }

// Fill takes all the room that there is but for leave bytes, as somebody else's
// file would.
func (d Disk) Fill(t testing.TB, leave int64) {
	t.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, 4096); d.Room(t) > leave; {
		if _, err := f.Write(page); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Room returns the number of free bytes.
func (d Disk) Room(t testing.TB) int64 {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.Dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// Free gives the room back that Fill has taken.
func (d Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
}
