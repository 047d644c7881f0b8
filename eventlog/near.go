package eventlog

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/streamwright/streamwright/eventlog/blocks"
)

const (
	// nearLeast is the number of frames from which on a reader looks into the server's files.
	nearLeast = 64
	// nearBytes is read at once.
	nearBytes = 256 << 10
)

// near reads the files of this machine's server, as far as the replicas have agreed: a frame then costs a tenth of what it costs to have it delivered. It stops, without an
// error, at the first that is not there as it should be, or not yet: a consumer brings the rest.
func (f *fetcher) near(ctx context.Context) error {
	if f.log.cfg.Folder == "" || f.agreed < f.next || f.agreed-f.next < nearLeast {
		return nil
	}
	dir := filepath.Join(f.log.cfg.Folder, f.log.stream)
	indexes, err := blocks.Indexes(dir)
	if err != nil {
		return nil
	}
	b := nearReader{fetcher: f, dir: dir}
	for at := max(1, sort.Search(len(indexes), func(i int) bool { return b.begins(indexes[i]) > f.next })) - 1; at < len(indexes); at++ {
		if more, err := b.block(ctx, indexes[at]); !more || err != nil {
			return err
		}
	}
	return nil
}

// nearReader reads block files.
type nearReader struct {
	*fetcher
	dir string
}

// begins returns the sequence of a block's first record; 0: there is none.
func (r *nearReader) begins(index uint32) (seq uint64) {
	_ = r.records(index, func(rec *blocks.Record) error {
		if rec.Tomb {
			return nil
		}
		seq = rec.Seq
		return errStop
	})
	return seq
}

// block puts the frames of a block into the pipeline. more reports whether they were all as they
// should be.
func (r *nearReader) block(ctx context.Context, index uint32) (more bool, err error) {
	var batch []Stored
	size := 0
	put := func() {
		if len(batch) > 0 {
			err = r.p.put(ctx, batch)
			batch, size = nil, 0
		}
	}
	stopped := r.records(index, func(rec *blocks.Record) error {
		switch {
		case rec.Tomb || rec.Seq < r.next:
			return nil
		case rec.Seq != r.next || rec.Erased || rec.Seq > r.agreed:
			return errStop
		}
		batch = append(batch, Stored{Seq: rec.Seq, raw: rec.Header, Data: rec.Data})
		r.next++
		if size += len(rec.Data); size >= nearBytes || len(batch) == nearLeast {
			put()
		}
		return err
	})
	put()
	return stopped == nil, err
}

// errStop ends the reading of a block.
var errStop = errors.New("that is enough")

// records calls each for the records of a block, until it errs. What they point to stays as it is.
func (r *nearReader) records(index uint32, each func(*blocks.Record) error) error {
	file, err := os.Open(blocks.File(r.dir, index))
	if err != nil {
		return err
	}
	defer file.Close()
	d, err := blocks.NewDecoder(r.log.stream, index)
	if err != nil {
		return err
	}
	for b, ended := []byte(nil), false; ; {
		rec, size, err := d.Next(b)
		switch {
		case err == nil:
			if err := each(&rec); err != nil {
				return err
			}
			b = b[size:]
			continue
		case !errors.Is(err, blocks.ErrCut) || ended && len(b) > 0:
			return err
		case ended:
			return nil
		}
		// What is left goes in front of the next part, which is at least as long again.
		next := make([]byte, max(nearBytes, 2*len(b)))
		n, err := io.ReadFull(file, next[copy(next, b):])
		if ended = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !ended {
			return err
		}
		b = next[:len(b)+n]
	}
}
