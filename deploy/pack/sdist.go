package main

import (
	"os"
	"path/filepath"
)

// sdist packs the source distribution of the Python client, which setuptools has made.
func (r *release) sdist() error {
	folders, err := os.ReadDir(filepath.Join(r.work, "sdist"))
	if err != nil {
		return err
	}
	for _, f := range folders {
		t := tree{}
		if err := t.copyAll(f.Name()+"/", filepath.Join(r.work, "sdist", f.Name()), 0o644); err != nil {
			return err
		}
		data, err := tarball(t, r.at)
		if err != nil {
			return err
		}
		if err := r.write("python/"+f.Name()+".tar.gz", data); err != nil {
			return err
		}
	}
	return nil
}
