package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"io"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip" // three times as fast as Go's
)

// archive makes the archive of a platform, a zip for Windows, and returns its name.
func (r *release) archive(p platform) (name string, err error) {
	top := "streamwright-" + r.version + "-" + p.String()
	t := tree{}
	for _, program := range p.programs() {
		if err := t.copy(top+"/"+program, r.program(p, program), 0o755); err != nil {
			return "", err
		}
	}
	for _, file := range []string{"README.md", "LICENSE", "engine.example.toml"} {
		if err := t.copy(top+"/"+file, filepath.Join(r.sources, file), 0o644); err != nil {
			return "", err
		}
	}
	t.add(top+"/THIRD-PARTY-LICENSES", []byte(r.notices), 0o644)
	folders := []string{"completions"}
	if p.os != "windows" {
		folders = append(folders, "man")
	}
	for _, folder := range folders {
		if err := t.copyAll(top+"/"+folder+"/", filepath.Join(r.work, folder), 0o644); err != nil {
			return "", err
		}
	}
	pack, ending := tarball, ".tar.gz"
	if p.os == "windows" {
		pack, ending = zipped, ".zip"
	}
	data, err := pack(t, r.at)
	if err != nil {
		return "", err
	}
	return top + ending, r.write(top+ending, data)
}

// program is the path of a program.
func (r *release) program(p platform, name string) string {
	return filepath.Join(r.work, "bin", p.String(), name)
}

// tarball makes a compressed tar of a tree.
func tarball(t tree, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, path := range t.paths() {
		e := t[path]
		h := &tar.Header{Name: path, Mode: int64(e.mode.Perm()), Size: int64(len(e.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatGNU}
		if e.data == nil {
			h.Name, h.Typeflag = path+"/", tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return gzipped(b.Bytes())
}

// gzipped compresses data.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b) // which has no name and no time
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// zipped makes a zip of a tree.
func zipped(t tree, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.DefaultCompression) })
	for _, path := range t.paths() {
		e := t[path]
		h := &zip.FileHeader{Name: path, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
