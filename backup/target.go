package backup

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/streamwright/streamwright/internal/flock"
)

// target is where a backup is written to.
type target interface {
	// before returns the backup to continue, which is what an unfinished run has noted if
	// there is that, and the last one that is whole; nil: none.
	before() (latest, whole *Manifest)
	// file opens a file for a segment.
	file() (*os.File, error)
	// keep takes a segment's file, which is whole, and closes it.
	keep(f *os.File, seg *Segment) error
	// note remembers what has been copied so far.
	note(m *Manifest) error
	// commit makes the backup one.
	commit(m *Manifest) error
	close() error
}

// IsFile reports whether the name of a target is that of one file, in place of a
// folder.
func IsFile(name string) bool { return name == Stdout || strings.HasSuffix(name, ".tar") }

// Stdout is the name of the target that is standard output.
const Stdout = "-"

const (
	lockFile  = "LOCK"
	tmpPrefix = "tmp-"
)

// ErrNotABackup is wrapped by the error of a folder or file that is none.
var ErrNotABackup = errors.New("there is no backup")

// folder is a target that backups are made into one after the other.
type folder struct {
	dir  string
	lock *os.File
	old  *Manifest // whole
	part *Manifest // noted by an unfinished run, if any
}

// openFolder opens, or makes, a folder for backups. A folder with anything else in it is
// refused.
func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the folder for backups: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder for backups: %w", err)
	}
	for _, e := range entries {
		if n := e.Name(); !isOurs(n) {
			return nil, fmt.Errorf("the folder %s holds %s, which belongs to no backup: choose an empty folder, or one that holds a backup", dir, n)
		}
	}
	t := &folder{dir: dir}
	if t.lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("lock the folder for backups: %w", err)
	}
	if err := flock.Lock(t.lock); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder for backups: another backup into %s is under way (%w): wait until it has ended", dir, err), t.close())
	}
	if t.old, err = t.read(manifestFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("%w; to begin anew, choose another folder", err), t.close())
	}
	t.part, _ = t.read(partialFile) // what can't be read is copied again
	return t, nil
}

// isOurs reports whether a backup makes files with such a name.
func isOurs(name string) bool {
	return name == lockFile || name == manifestFile || name == partialFile || name == manifestFile+".tmp" || name == partialFile+".tmp" ||
		strings.HasPrefix(name, tmpPrefix) || isSegment(name)
}

func (t *folder) read(name string) (*Manifest, error) {
	f, err := os.Open(filepath.Join(t.dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeManifest(filepath.Join(t.dir, name), f)
}

func (t *folder) before() (latest, whole *Manifest) {
	if t.part != nil && (t.old == nil || t.part.Previous == t.old.ID) {
		return t.part, t.old
	}
	return t.old, t.old
}

func (t *folder) file() (*os.File, error) { return os.CreateTemp(t.dir, tmpPrefix) }

func (t *folder) keep(f *os.File, seg *Segment) error {
	err := errors.Join(f.Close(), os.Rename(f.Name(), filepath.Join(t.dir, seg.File)))
	if err == nil {
		err = syncDir(t.dir)
	}
	return err
}

func (t *folder) note(m *Manifest) error { return t.write(partialFile, m) }

// write replaces a file, so that a crash leaves the old one or the new one.
func (t *folder) write(name string, m *Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	path := filepath.Join(t.dir, name)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	return syncDir(t.dir)
}

func (t *folder) commit(m *Manifest) error {
	if err := t.write(manifestFile, m); err != nil {
		return err
	}
	return t.sweep(m)
}

// sweep removes the files of backups that m does not name.
func (t *folder) sweep(m *Manifest) error {
	named := map[string]bool{lockFile: true, manifestFile: true}
	for _, s := range m.Streams {
		for _, seg := range s.Segments {
			named[seg.File] = true
		}
	}
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if n := e.Name(); isOurs(n) && !named[n] {
			errs = append(errs, os.Remove(filepath.Join(t.dir, n)))
		}
	}
	return errors.Join(errs...)
}

func (t *folder) close() error { return flock.Close(t.lock) }

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// tarFile is a target that is one tar file, or a stream.
type tarFile struct {
	path string // empty: a stream
	f    *os.File
	tw   *tar.Writer
	done bool
}

func openTar(path string, out io.Writer) (*tarFile, error) {
	if path == Stdout {
		return &tarFile{tw: tar.NewWriter(out)}, nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("the file %s exists: choose another name, or a folder, which takes one backup after the other", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return nil, fmt.Errorf("write the backup: %w", err)
	}
	return &tarFile{path: path, f: f, tw: tar.NewWriter(f)}, nil
}

func (t *tarFile) before() (latest, whole *Manifest) { return nil, nil }
func (t *tarFile) note(*Manifest) error              { return nil }

func (t *tarFile) file() (*os.File, error) {
	if t.path == "" {
		return os.CreateTemp("", "streamwright-backup-")
	}
	return os.CreateTemp(filepath.Dir(t.path), "."+filepath.Base(t.path)+"-")
}

func (t *tarFile) keep(f *os.File, seg *Segment) error {
	defer func() { _, _ = f.Close(), os.Remove(f.Name()) }()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := t.tw.WriteHeader(&tar.Header{Name: seg.File, Size: seg.Size, Mode: 0o600, ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := io.Copy(t.tw, f)
	return err
}

func (t *tarFile) commit(m *Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	if err := t.tw.WriteHeader(&tar.Header{Name: manifestFile, Size: int64(len(data)), Mode: 0o600, ModTime: time.Now()}); err != nil {
		return err
	}
	if _, err := t.tw.Write(data); err != nil {
		return err
	}
	if err := t.tw.Close(); err != nil || t.path == "" {
		return err
	}
	if err := errors.Join(t.f.Sync(), t.f.Close()); err != nil {
		return err
	}
	// A link, since a rename would replace a file that has come meanwhile.
	if err := os.Link(t.f.Name(), t.path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := os.Rename(t.f.Name(), t.path); err != nil { // no links on this file system
			return err
		}
	}
	t.done = true
	_ = os.Remove(t.f.Name())
	return syncDir(filepath.Dir(t.path))
}

func (t *tarFile) close() error {
	if t.path != "" && !t.done {
		return errors.Join(t.f.Close(), os.Remove(t.f.Name()))
	}
	return nil
}
