package staging

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// memory is where a file system in memory is to be found.
const memory = "/dev/shm"

func inMemory(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.TMPFS_MAGIC
}

// own reports whether a folder is this user's alone.
func own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}
