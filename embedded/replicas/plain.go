package replicas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/minio/highwayhash"
)

// Plain brings the streams of a server that does not run over to plain files: it decompresses
// each block that is compressed, and switches the compression off in the stream's
// own file. It returns the number of blocks. The server (2.15) may compress a block while it
// appends to it, which destroys what the block holds; and it appends to a compressed block
// that happens to be the last one when it starts.
//
// Each file is written anew and then takes the old one's place, the stream's own file last: a crash on
// the way leaves something that can be read, and the next call goes on. A block that can't be
// decompressed, or has a bad record, is an error, and stays as it is.
//
// store is the server's folder, and ours reports whether a stream is to be brought over.
func Plain(store string, ours func(stream string) bool) (n int, err error) {
	dirs, err := filepath.Glob(filepath.Join(store, "*", "streams", "*"))
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		if stream := filepath.Base(dir); ours(stream) {
			done, err := plainStream(dir, stream)
			n += done
			if err != nil {
				return n, fmt.Errorf("decompress stream %s: %w", stream, err)
			}
		}
	}
	return n, nil
}

func plainStream(dir, stream string) (n int, err error) {
	indexes, err := blocks(filepath.Join(dir, "msgs"))
	if err != nil {
		return 0, err
	}
	for _, index := range indexes {
		file := filepath.Join(dir, "msgs", strconv.FormatUint(uint64(index), 10)+blockFile)
		is, err := isCompressed(file)
		if err == nil && is {
			err = plainBlock(file, stream, index)
			n++
		}
		if err != nil {
			return n, fmt.Errorf("%s: %w", file, err)
		}
	}
	return n, plainMeta(dir, stream)
}

// isCompressed looks at the beginning of a block file.
func isCompressed(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return compressed(head[:n]), nil
}

func plainBlock(file, stream string, index uint32) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	plain, is, err := decode(b)
	if err == nil {
		err = records(stream, index, plain, func(uint64) {})
	}
	if err != nil || !is {
		return err
	}
	return replace(file, plain)
}

// plainMeta switches the compression off in the file by which the server knows the stream.
// The checksum goes first: until both are written the next call begins again.
func plainMeta(dir, stream string) error {
	file := filepath.Join(dir, "meta.inf")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the server won't take it for a stream
	}
	if err != nil {
		return err
	}
	var meta map[string]json.RawMessage
	if err := json.Unmarshal(b, &meta); err != nil {
		return nil // as above: it is the server's to complain
	}
	if c := string(meta["compression"]); c == "" || c == `"none"` {
		return nil
	}
	meta["compression"] = json.RawMessage(`"none"`)
	if b, err = json.Marshal(meta); err != nil {
		return err
	}
	key := sha256.Sum256([]byte(stream))
	hash, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return err
	}
	_, _ = hash.Write(b)
	if err := replace(filepath.Join(dir, "meta.sum"), []byte(hex.EncodeToString(hash.Sum(nil)))); err != nil {
		return err
	}
	return replace(file, b)
}

// replace writes a file that outlives a crash at any time, as the old one or the new one.
func replace(file string, b []byte) error {
	tmp := file + ".plain"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp)) // it may be what fills the disk
	}
	if err := os.Rename(tmp, file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
