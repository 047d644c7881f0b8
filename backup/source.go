package backup

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Backup is a backup that is open for reading. Its methods may be called from any
// goroutine.
type Backup struct {
	Manifest *Manifest

	path  string
	dir   string           // of a folder
	tar   *os.File         // of a file
	where map[string]place // of the segments in tar
}

// place is a file's content in a tar file.
type place struct{ at, size int64 }

// Open opens a backup: a folder or a tar file. It reads the manifest alone.
func Open(path string) (*Backup, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	b := &Backup{path: path}
	if info.IsDir() {
		b.dir = path
		return b, b.openManifest()
	}
	if b.tar, err = os.Open(path); err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	if err := b.index(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close closes the backup's file.
func (b *Backup) Close() error {
	if b.tar == nil {
		return nil
	}
	return b.tar.Close()
}

func (b *Backup) openManifest() error {
	file := filepath.Join(b.dir, manifestFile)
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b.none()
	}
	if err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	defer f.Close()
	b.Manifest, err = decodeManifest(file, f)
	return err
}

func (b *Backup) none() error {
	return fmt.Errorf("%w in %s: it lacks %s, which is written last: run engine backup again if it was interrupted, or name the folder or file of a backup", ErrNotABackup, b.path, manifestFile)
}

// index finds the files in the tar file. The manifest is the last.
func (b *Backup) index() error {
	b.where = map[string]place{}
	tr := tar.NewReader(b.tar)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(b.path, "can't be read as a tar file (%v)", err)
		}
		if h.Name == manifestFile {
			if b.Manifest, err = decodeManifest(b.path+":"+manifestFile, tr); err != nil {
				return err
			}
			continue
		}
		at, err := b.tar.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		b.where[h.Name] = place{at, h.Size}
	}
	if b.Manifest == nil {
		return b.none()
	}
	return nil
}

// file names a segment for people.
func (b *Backup) file(seg *Segment) string {
	if b.dir != "" {
		return filepath.Join(b.dir, seg.File)
	}
	return b.path + ":" + seg.File
}

// read returns the bytes of a segment, which have the checksum that the manifest names.
func (b *Backup) read(seg *Segment) ([]byte, error) {
	var r io.Reader
	if b.dir != "" {
		f, err := os.Open(filepath.Join(b.dir, seg.File))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, damaged(b.file(seg), "is missing")
		}
		if err != nil {
			return nil, fmt.Errorf("read the backup: %w", err)
		}
		defer f.Close()
		r = f
	} else {
		at, ok := b.where[seg.File]
		if !ok {
			return nil, damaged(b.file(seg), "is missing")
		}
		r = io.NewSectionReader(b.tar, at.at, at.size)
	}
	data, err := io.ReadAll(io.LimitReader(r, seg.Size+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the backup's %s: %w", b.file(seg), err)
	case int64(len(data)) < seg.Size:
		return nil, damaged(b.file(seg), "has %d bytes, and should have %d", len(data), seg.Size)
	case sum(data) != seg.SHA256:
		return nil, damaged(b.file(seg), "does not have the checksum that %s names: it was changed, or belongs to another backup", manifestFile)
	}
	return data, nil
}

// each gives fn the records from one sequence to another, in order.
func (b *Backup) each(ctx context.Context, s *Stream, from, to uint64, fn func(*Record) error) error {
	if s == nil {
		return nil
	}
	for i := range s.Segments {
		seg := &s.Segments[i]
		if seg.Last < from || seg.First > to {
			continue
		}
		data, err := b.read(seg)
		if err != nil {
			return err
		}
		err = seg.records(data, func(r *Record) error {
			if r.Seq < from || r.Seq > to {
				return nil
			}
			if r.Seq&0x3ff == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			return fn(r)
		})
		if errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), b.path) {
			err = fmt.Errorf("%s: %w", b.path, err)
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
