// Package staging has a NATS server keep in memory what it writes down of an append
// before the append itself.
//
// A server that syncs every write syncs an atomic batch once, whatever its size. But of
// a stream with one replica it writes each batch twice: first to a store made for it, in
// the folder "batches" beside the stream's blocks, from which a restarted server
// completes a batch that it had stored a part of. That store costs five syncs. The
// event log has no need of it: a part of an append is something that its readers know
// from appends that are no batches (see package eventlog), and of an append under way
// nobody has been told. So here "batches" is a link to a folder of a file system in
// memory. If the process dies, memory stays, and the server completes the batch as ever;
// if the machine does, at most a part of an append is left that nobody was told of.
package staging

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

const (
	// folderName is the name that the server gives its folder, beside a stream's blocks.
	folderName = "batches"
	// spare is the room, in bytes, that must be left in memory beside an append.
	spare = 8 << 20
)

// Folder is the folder in memory of one stream. Its methods may be called on nil, which
// stands for none; they are not for use by several goroutines at once.
type Folder struct {
	link string // the server's folder
	dir  string // in memory
	free func(dir string) (uint64, error)
	log  *slog.Logger
	full bool // it had no room once, and is out of use
}

// Open makes the folder in memory for the stream whose blocks are in streamDir, and
// empties it. It must be called when the server has started and before anything
// is appended. free returns how many bytes can still be written to the file system of
// a folder. Where there is no file system in memory, or it can't be used, Open returns
// nil.
func Open(streamDir string, free func(dir string) (uint64, error), log *slog.Logger) *Folder {
	if !inMemory(memory) {
		return nil
	}
	abs, err := filepath.Abs(streamDir)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256([]byte(abs))
	f := &Folder{
		link: filepath.Join(abs, folderName), free: free, log: log,
		dir: filepath.Join(memory, fmt.Sprintf("streamwright-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:8]))),
	}
	if err := f.make(); err != nil {
		log.Warn("appends are not staged in memory, which makes them slower", "folder", f.dir, "error", err)
		return nil
	}
	return f
}

// make makes the folder anew. The name can be foreseen, and others may write beside it:
// what is there already must be ours.
func (f *Folder) make() error {
	if info, err := os.Lstat(f.dir); err == nil && (!info.IsDir() || !own(info)) {
		return fmt.Errorf("%s belongs to somebody else", f.dir)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return err
	}
	return os.Mkdir(f.dir, 0o700)
}

// Ready reports whether the server stages the next append, of so many bytes, in memory.
// It puts the link in place if it is not there: a server that starts removes it. Memory
// without room for the append is not used again.
func (f *Folder) Ready(bytes int) bool {
	if f == nil || f.full {
		return false
	}
	if _, err := os.Lstat(f.dir); err != nil && f.make() != nil { // systemd removes it with its user's last session
		return false
	}
	if to, err := os.Readlink(f.link); err != nil || to != f.dir {
		if !errors.Is(err, fs.ErrNotExist) || os.Symlink(f.dir, f.link) != nil {
			return false // the server has made the folder itself, or the stream is gone
		}
	}
	if free, err := f.free(f.dir); err != nil || free < 2*uint64(bytes)+spare {
		f.full = true
		f.log.Warn("no room in memory to stage appends: they will be slower", "folder", f.dir, "free_bytes", free)
		_ = os.Remove(f.link) // at worst the server finds no room either, and refuses the append
		return false
	}
	return true
}

// Close removes the link and the folder. The server must have stopped.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	var errs []error
	if to, err := os.Readlink(f.link); err == nil && to == f.dir {
		errs = append(errs, os.Remove(f.link))
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}
