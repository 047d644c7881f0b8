package embedded

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/flock"
)

// FormatVersion is the format of the data folder that this program reads and writes. Since
// 4 the log is in frames.
const FormatVersion = 4

const (
	lockFile    = "LOCK"
	versionFile = "VERSION"
	// maxVersionBytes bounds what is read of the version and lock files and their like.
	maxVersionBytes = 128
)

// ErrInUse is wrapped by the error of a data folder that another process has.
var ErrInUse = errors.New("the data folder is in use")

// ErrNewerFormat is wrapped by the error of a data folder that a newer
// program has written.
var ErrNewerFormat = errors.New("the data folder is of a newer format")

// dataDir is a data folder that this process has locked.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the folder if it is not there, locks it, and checks or
// writes its version.
func openDataDir(path string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("open data folder: no folder is named: set dir")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open data folder: %w: choose a folder that can be written", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &dataDir{path: path, lock: lock}
	if err := d.checkVersion(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w: choose a folder that can be written", err)
	}
	if err := flock.Lock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, flock.ErrHeld) {
			return nil, fmt.Errorf("lock data folder %s: %w", path, err)
		}
		pid, _ := io.ReadAll(io.LimitReader(f, maxVersionBytes))
		return nil, events.WithCode(events.CodeFolderInUse, fmt.Errorf("lock data folder: %w: %s is held by %s: stop that process, or choose another folder", ErrInUse, path, holder(string(pid))))
	}
	if err := writeWhole(f, strconv.Itoa(os.Getpid())+"\n"); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	return f, nil
}

// holder names the process that has the lock; the file is empty for the moment
// between locking and writing.
func holder(pid string) string {
	pid = strings.TrimSpace(pid)
	switch {
	case pid == "":
		return "another process"
	case pid == strconv.Itoa(os.Getpid()):
		return "process " + pid + " (this one)"
	}
	return "process " + pid
}

func writeWhole(f *os.File, text string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// checkVersion refuses a folder of another format.
func (d *dataDir) checkVersion() error {
	file := filepath.Join(d.path, versionFile)
	text, err := readShort(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d.writeVersion(FormatVersion)
	}
	if err != nil {
		return fmt.Errorf("read data folder's version: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 1 {
		return fmt.Errorf("read data folder's version: %s holds %q, not a number: this is no data folder of the engine, or it is damaged", file, text)
	}
	if n > FormatVersion {
		return events.WithCode(events.CodeNewerFormat, fmt.Errorf("open data folder: %w: %s has format %d, this program knows up to %d: use a newer program", ErrNewerFormat, d.path, n, FormatVersion))
	}
	if n < FormatVersion {
		return events.WithCode(events.CodeBadConfig, fmt.Errorf("open data folder: %s has format %d, of a program before 0.1, which this one does not read: choose another folder", d.path, n))
	}
	return nil
}

func readShort(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVersionBytes))
	return string(b), err
}

func (d *dataDir) writeVersion(v int) error {
	if err := replaceFile(filepath.Join(d.path, versionFile), strconv.Itoa(v)+"\n", true); err != nil {
		return fmt.Errorf("write data folder's version: %w", err)
	}
	return nil
}

// replaceFile writes the file under another name first, so that a crash leaves the
// old one, or none, or a whole one. With sync it outlives a power loss.
func replaceFile(file, text string, sync bool) error {
	f, err := os.OpenFile(file+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil && sync {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(file+".tmp", file); err != nil || !sync {
		return err
	}
	return syncDir(filepath.Dir(file))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// root returns the folder; empty in memory.
func (d *dataDir) root() string {
	if d == nil {
		return ""
	}
	return d.path
}

// Close lets another process have the folder. The lock file stays: removing it
// could let two processes lock two files of one name.
func (d *dataDir) Close() error {
	if d == nil || d.lock == nil {
		return nil
	}
	err := flock.Close(d.lock)
	d.lock = nil
	return err
}
