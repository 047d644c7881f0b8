// Package blocks reads the block files in which nats-server 2.15 keeps a stream's messages. It
// opens them by itself, beside the server that writes them.
package blocks

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// A record of a block file: length (4), sequence (8), time (8), length of the subject (2),
// subject, with headers their length (4) and the headers, message, hash (8). The bits mark
// records with headers, erased messages and tombstones.
const (
	head       = 22
	hashSize   = highwayhash.Size64
	maxRecord  = 32 << 20
	headersBit = 1 << 31
	erasedBit  = 1 << 63
	tombBit    = 1 << 62
	suffix     = ".blk"
)

// Record is one message of a block.
type Record struct {
	Seq    uint64
	Erased bool // its contents are gone
	Tomb   bool // an earlier record's message was deleted
	// Header as NATS writes it, and Data, point into the block.
	Header, Data []byte
}

// What Next finds in place of a record.
var (
	ErrCut   = errors.New("a record is cut off")
	ErrOther = errors.New("there is no record")
	ErrHash  = errors.New("a record has another hash")
)

// Decoder reads the records of one block.
type Decoder struct {
	hash hash.Hash64
	sum  [hashSize]byte
}

// NewDecoder returns the Decoder of a stream's block.
func NewDecoder(stream string, index uint32) (*Decoder, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", stream, index))
	h, err := highwayhash.New64(key[:])
	return &Decoder{hash: h}, err
}

// Next reads the record at the begin of b, and returns its size. ErrCut: b ends within it.
func (d *Decoder) Next(b []byte) (r Record, size int, err error) {
	if len(b) < head {
		return r, 0, ErrCut
	}
	le := binary.LittleEndian
	length, subject := le.Uint32(b), int(le.Uint16(b[20:]))
	size = int(length &^ headersBit)
	least := head + subject + hashSize
	if length&headersBit != 0 {
		least += 4
	}
	switch {
	case size < least || size > maxRecord:
		return r, 0, ErrOther
	case size > len(b):
		return r, 0, ErrCut
	}
	body, headers := b[head+subject:size-hashSize], 0
	if length&headersBit != 0 {
		headers = int(le.Uint32(body))
		if body = body[4:]; headers > len(body) {
			return r, 0, ErrOther
		}
	}
	d.hash.Reset()
	_, _ = d.hash.Write(b[4:20])
	_, _ = d.hash.Write(b[head : head+subject])
	_, _ = d.hash.Write(body)
	if string(d.hash.Sum(d.sum[:0])) != string(b[size-hashSize:size]) {
		return r, 0, ErrHash
	}
	seq := le.Uint64(b[4:])
	return Record{
		Seq: seq &^ (erasedBit | tombBit), Erased: seq&erasedBit != 0, Tomb: seq&tombBit != 0,
		Header: body[:headers:headers], Data: body[headers:len(body):len(body)],
	}, size, nil
}

// Indexes returns the indexes of the blocks in a stream's folder, sorted. A folder that is not
// there has none.
func Indexes(dir string) ([]uint32, error) {
	files, err := os.ReadDir(filepath.Join(dir, "msgs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []uint32
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), suffix)
		if n, err := strconv.ParseUint(name, 10, 32); ok && err == nil {
			all = append(all, uint32(n))
		}
	}
	slices.Sort(all)
	return all, nil
}

// File returns the name of a block's file.
func File(dir string, index uint32) string {
	return filepath.Join(dir, "msgs", strconv.FormatUint(uint64(index), 10)+suffix)
}
