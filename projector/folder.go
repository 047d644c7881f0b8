package projector

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/streamwright/streamwright/projector/internal/layout"
)

// FormatVersion is the version of the stores that this program writes: of the
// layout of keys.go, the records, and the way events become records. A folder
// with a higher one is refused, one with a lower one is made anew from the log.
const FormatVersion = 11

// ErrInUse is wrapped by the error about a folder that another Store, in this
// process or another, has open.
var ErrInUse = errors.New("in use by another process")

const (
	lockFile       = "LOCK"
	currentFile    = "CURRENT"
	currentTmp     = "CURRENT.tmp"
	currentMagic   = "streamwright-projection"
	generationName = "gen-"
	verifyName     = "verify" // the store that Verify makes, a folder of its own
)

// folder is a store's folder: a lock, the file CURRENT that names a generation
// and the format version, and a Pebble folder for that generation. Another
// generation is one being made, or one that a crash has left.
type folder struct {
	fs     vfs.FS
	dir    string
	lock   io.Closer
	number int // of the current generation; 0: none yet
}

// openFolder locks the folder, makes it if need be, and removes all but the
// current generation. It returns the options that hold for that folder.
func openFolder(dir string, opts Options) (*folder, Options, error) {
	if err := opts.Validate(); err != nil {
		return nil, opts, err
	}
	opts = opts.WithDefaults()
	if opts.InMemory {
		dir = "store"
	}
	opts = opts.on(dir)
	f := &folder{fs: opts.fs, dir: dir}
	if err := f.open(); err != nil {
		return nil, opts, fmt.Errorf("open store %s: %w", dir, err)
	}
	return f, opts, nil
}

func (f *folder) open() (err error) {
	err = f.fs.MkdirAll(f.dir, 0o755)
	if err == nil {
		err = syncDir(f.fs, f.fs.PathDir(f.dir))
	}
	if err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	if f.lock, err = f.fs.Lock(f.fs.PathJoin(f.dir, lockFile)); err != nil {
		return fmt.Errorf("%w: stop that one, or use another folder (%v)", ErrInUse, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	version, err := f.readCurrent()
	if err != nil {
		return err
	}
	if version > FormatVersion {
		return fmt.Errorf("its format is %d, this program knows up to %d: %w", version, FormatVersion, layout.ErrNewerFormat)
	}
	if version < FormatVersion {
		f.number = 0 // the log is the truth: an empty store reads it anew
	}
	if err := f.sweep(); err != nil {
		return fmt.Errorf("remove what a crash has left: %w", err)
	}
	return nil
}

// Holds says what a folder holds, without opening or changing it: a store that
// Open would take as it is, or one that Open would make anew (outdated), or
// neither.
func Holds(dir string) (store, outdated bool, err error) {
	f := &folder{fs: vfs.Default, dir: dir}
	version, err := f.readCurrent()
	if err != nil || f.number == 0 {
		return false, false, err
	}
	return version >= FormatVersion, version < FormatVersion, nil
}

func (f *folder) close() error { return f.lock.Close() }

func (f *folder) path(number int) string {
	return f.fs.PathJoin(f.dir, fmt.Sprintf("%s%06d", generationName, number))
}

// readCurrent reads which generation is current, and its format.
func (f *folder) readCurrent() (version int, err error) {
	file, err := f.fs.Open(f.fs.PathJoin(f.dir, currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return FormatVersion, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 256))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 3 || fields[0] != currentMagic {
		return 0, fmt.Errorf("%s says %q, which names no generation: the folder is damaged", currentFile, text)
	}
	version, verr := strconv.Atoi(fields[1])
	number, nerr := strconv.Atoi(strings.TrimPrefix(fields[2], generationName))
	if verr != nil || nerr != nil || number < 1 {
		return 0, fmt.Errorf("%s says %q, which names no generation: the folder is damaged", currentFile, text)
	}
	f.number = number
	return version, nil
}

// makeCurrent makes a generation, whole and synced, the current one. The
// rename is the moment.
func (f *folder) makeCurrent(number int) error {
	tmp := f.fs.PathJoin(f.dir, currentTmp)
	file, err := f.fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %d %s%06d\n", currentMagic, FormatVersion, generationName, number)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := f.fs.Rename(tmp, f.fs.PathJoin(f.dir, currentFile)); err != nil {
		return err
	}
	if err := syncDir(f.fs, f.dir); err != nil {
		return err
	}
	f.number = number
	return nil
}

// remove removes a generation that nobody has open.
func (f *folder) remove(number int) error { return f.fs.RemoveAll(f.path(number)) }

// syncDir makes the names in a folder durable.
func syncDir(vf vfs.FS, dir string) error {
	d, err := vf.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sweep removes every generation but the current one, and temporary files.
func (f *folder) sweep() error {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		left := strings.HasPrefix(name, generationName) && f.fs.PathJoin(f.dir, name) != f.path(f.number)
		if left || name == currentTmp || name == verifyName {
			if err := f.fs.RemoveAll(f.fs.PathJoin(f.dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// openGeneration opens the Pebble folder of a generation.
func (f *folder) openGeneration(number int, o *pebble.Options) (*pebble.DB, error) {
	db, err := pebble.Open(f.path(number), o)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", f.dir, err)
	}
	return db, nil
}
