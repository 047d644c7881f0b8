package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checksums writes the checksums of all files of the release, as sha256sum -c reads them.
func (r *release) checksums() error {
	list := "streamwright-" + r.version + "-SHA256SUMS"
	var b strings.Builder
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		if err != nil || name == list {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return err
	}
	return r.write(list, []byte(b.String()))
}
