package projector

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/streamwright/streamwright/projector/internal/layout"
)

// Copy copies the store of a folder to a new one, for a reader that must not
// change it: to open a store writes to its folder. Tables, which never change,
// become links where the file system allows it. No Store may have the folder
// open; a store of an older or newer format is refused.
func Copy(from, to string) error {
	vf := vfs.Default
	store, outdated, err := Holds(from)
	switch {
	case err != nil:
		return fmt.Errorf("copy store %s: %w", from, err)
	case outdated:
		return fmt.Errorf("copy store %s: its format is that of an older program: use that one", from)
	case !store:
		return fmt.Errorf("copy store %s: there is no store in it", from)
	}
	lock, err := vf.Lock(vf.PathJoin(from, lockFile))
	if err != nil {
		return fmt.Errorf("copy store %s: %w: stop that process (%v)", from, ErrInUse, err)
	}
	defer lock.Close()
	f := &folder{fs: vf, dir: from}
	version, err := f.readCurrent()
	if err == nil && version > FormatVersion {
		err = fmt.Errorf("its format is %d, this program knows up to %d: %w: use that one", version, FormatVersion, layout.ErrNewerFormat)
	}
	if err == nil {
		err = copyGeneration(vf, f, to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy store %s: %w", from, err), vf.RemoveAll(to))
	}
	return nil
}

func copyGeneration(vf vfs.FS, f *folder, to string) error {
	src := f.path(f.number)
	dst := vf.PathJoin(to, vf.PathBase(src))
	if err := vf.MkdirAll(dst, 0o700); err != nil {
		return err
	}
	names, err := vf.List(src)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == lockFile {
			continue
		}
		put := vfs.Copy
		if strings.HasSuffix(name, ".sst") {
			put = vfs.LinkOrCopy
		}
		if err := put(vf, vf.PathJoin(src, name), vf.PathJoin(dst, name)); err != nil {
			return err
		}
	}
	return vfs.Copy(vf, vf.PathJoin(f.dir, currentFile), vf.PathJoin(to, currentFile))
}
