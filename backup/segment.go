package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a segment. It ends with the record that reaches one of them.
const (
	maxSegmentRecords = 200_000
	maxSegmentBytes   = 32 << 20
	// maxSegmentFile bounds a file: one that can't be compressed, with the largest
	// message behind its bound.
	maxSegmentFile = 2 * (maxSegmentBytes + maxField)
	// maxField bounds a part of a message: more than a server's largest max_payload.
	maxField = 64 << 20
)

// segmentMagic begins a segment's content.
const segmentMagic = "streamwright segment 1\n"

// Record is a message as it is stored.
type Record struct {
	Seq     uint64
	Time    time.Time
	Subject string
	Header  []byte // as on the wire; none: no headers
	Data    []byte
}

// sum is a checksum of all of a record.
func (r *Record) sum() string { return sumOf(r.append(nil)) }

func sumOf(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// append encodes a record behind b.
func (r *Record) append(b []byte) []byte {
	b = binary.AppendUvarint(b, r.Seq)
	b = binary.AppendVarint(b, r.Time.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(r.Subject)))
	b = append(b, r.Subject...)
	b = binary.AppendUvarint(b, uint64(len(r.Header)))
	b = append(b, r.Header...)
	b = binary.AppendUvarint(b, uint64(len(r.Data)))
	return append(b, r.Data...)
}

func readRecord(r *bufio.Reader) (rec Record, err error) {
	if rec.Seq, err = binary.ReadUvarint(r); err != nil {
		return rec, err // io.EOF: there are no more
	}
	nanos, err := binary.ReadVarint(r)
	rec.Time = time.Unix(0, nanos).UTC()
	var subject []byte
	for _, field := range []*[]byte{&subject, &rec.Header, &rec.Data} {
		if err == nil {
			*field, err = readField(r)
		}
	}
	rec.Subject = string(subject)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return rec, err
}

func readField(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	switch {
	case err != nil:
		return nil, err
	case n > maxField:
		return nil, fmt.Errorf("a part of a message has %d bytes", n)
	case n == 0:
		return nil, nil
	}
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	return b, err
}

var segmentName = regexp.MustCompile(`^(events|intake|logs|output|documents)-[0-9]{20}-[0-9]{20}-[A-Z2-7]{8}\.zst$`)

// isSegment reports whether a file's name is that of a segment.
func isSegment(name string) bool { return segmentName.MatchString(name) }

// nameOf names a segment. The id of the run is in it, so that no run replaces a file of the
// backup before it, which stands until the new one is whole.
func nameOf(kind string, first, last uint64, id string) string {
	return fmt.Sprintf("%s-%020d-%020d-%.8s.zst", kind, first, last, id)
}

// segmentWriter writes one segment.
type segmentWriter struct {
	f    *os.File
	sum  hash.Hash
	zw   *zstd.Encoder
	buf  []byte
	seg  Segment
	size int64
}

func newSegmentWriter(f *os.File) (*segmentWriter, error) {
	w := &segmentWriter{f: f, sum: sha256.New()}
	var err error
	if w.zw, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, err
	}
	_, err = w.zw.Write([]byte(segmentMagic))
	return w, err
}

// Write takes the compressed bytes.
func (w *segmentWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.sum.Write(p[:n])
	w.size += int64(n)
	return n, err
}

func (w *segmentWriter) add(r *Record) error {
	w.buf = r.append(w.buf[:0])
	if w.seg.Records == 0 {
		w.seg.First = r.Seq
	}
	w.seg.Last = r.Seq
	w.seg.Records++
	w.seg.Raw += int64(len(w.buf))
	_, err := w.zw.Write(w.buf)
	return err
}

func (w *segmentWriter) full(size int64) bool {
	return w.seg.Records >= maxSegmentRecords || w.seg.Raw >= size
}

// finish ends the segment; the file is whole then, but not closed.
func (w *segmentWriter) finish(kind, id string) (Segment, error) {
	if err := w.zw.Close(); err != nil {
		return Segment{}, err
	}
	w.seg.File, w.seg.Size = nameOf(kind, w.seg.First, w.seg.Last, id), w.size
	w.seg.SHA256, w.seg.LastSum = hex.EncodeToString(w.sum.Sum(nil)), sumOf(w.buf)
	return w.seg, w.f.Sync()
}

// records decodes the content of a segment whose checksum is right, and gives fn each
// record.
func (seg *Segment) records(data []byte, fn func(*Record) error) error {
	zr, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return damaged(seg.File, "can't be read (%v)", err)
	}
	defer zr.Close()
	r := bufio.NewReaderSize(zr, 256<<10)
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != segmentMagic {
		return damaged(seg.File, "is not a segment of a backup")
	}
	last, n := seg.First-1, 0
	for {
		rec, err := readRecord(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return damaged(seg.File, "can't be read behind record %d (%v)", last, err)
		}
		if rec.Seq <= last || rec.Seq > seg.Last || n == 0 && rec.Seq != seg.First {
			return damaged(seg.File, "has record %d out of order", rec.Seq)
		}
		last, n = rec.Seq, n+1
		if err := fn(&rec); err != nil {
			return err
		}
	}
	if n != seg.Records || last != seg.Last {
		return damaged(seg.File, "has %d records up to %d, and should have %d up to %d", n, last, seg.Records, seg.Last)
	}
	return nil
}
