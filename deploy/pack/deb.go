package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// debianScripts are the files of deploy/debian that dpkg runs.
var debianScripts = []string{"postinst", "prerm", "postrm"}

// installed are the files of the repository that a Debian package installs, and where.
var installed = map[string]string{
	"deploy/systemd/streamwright.service":               "usr/lib/systemd/system/streamwright.service",
	"deploy/systemd/streamwright-worker@.service":       "usr/lib/systemd/system/streamwright-worker@.service",
	"deploy/cluster/systemd/streamwright-node@.service": "usr/lib/systemd/system/streamwright-node@.service",
	"deploy/systemd/sysusers.conf":                      "usr/lib/sysusers.d/streamwright.conf",
	"deploy/systemd/engine.toml":                        "etc/streamwright/engine.toml",
	"deploy/cluster/systemd/engine.toml":                "usr/share/doc/streamwright/examples/cluster.toml",
	"deploy/cluster/certificates.sh":                    "usr/share/doc/streamwright/examples/certificates.sh",
	"engine.example.toml":                               "usr/share/doc/streamwright/examples/engine.example.toml",
	"README.md":                                         "usr/share/doc/streamwright/README.md",
}

// shells are where the shells of Debian look for completions.
var shells = map[string]string{
	"streamwright.bash": "usr/share/bash-completion/completions/streamwright",
	"_streamwright":     "usr/share/zsh/vendor-completions/_streamwright",
	"streamwright.fish": "usr/share/fish/vendor_completions.d/streamwright.fish",
}

// deb makes the Debian package of a platform.
func (r *release) deb(p platform) error {
	files := tree{}
	for _, name := range p.programs() {
		if err := files.copy("usr/bin/"+name, r.program(p, name), 0o755); err != nil {
			return err
		}
	}
	for from, to := range installed {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(from, ".sh") {
			mode = 0o755
		}
		if err := files.copy(to, filepath.Join(r.sources, filepath.FromSlash(from)), mode); err != nil {
			return err
		}
	}
	for from, to := range shells {
		if err := files.copy(to, filepath.Join(r.work, "completions", from), 0o644); err != nil {
			return err
		}
	}
	if err := r.debDocs(files); err != nil {
		return err
	}
	control, err := r.debControl(p, files)
	if err != nil {
		return err
	}
	data, err := tarball(withFolders(files), r.at)
	if err != nil {
		return err
	}
	meta, err := tarball(withFolders(control), r.at)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", meta}, {"data.tar.gz", data}} {
		arMember(&b, m.name, m.data, r.at)
	}
	return r.write(fmt.Sprintf("streamwright_%s_%s.deb", debianVersion(r.version), p.arch), b.Bytes())
}

// arMember writes a member of an ar: name, time, owner, group, mode and size in columns, the data, and a byte
// if its length is odd.
func arMember(b *bytes.Buffer, name string, data []byte, at time.Time) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, at.Unix(), 0, 0, "100644", len(data))
	b.Write(data)
	if len(data)%2 == 1 {
		b.WriteByte('\n')
	}
}

// debDocs adds the manual, the changelog and the licenses.
func (r *release) debDocs(files tree) error {
	pages, err := filepath.Glob(filepath.Join(r.work, "man", "*.1"))
	if err != nil {
		return err
	}
	compressed := map[string]string{filepath.Join(r.sources, "CHANGELOG.md"): "usr/share/doc/streamwright/changelog.gz"}
	for _, page := range pages {
		compressed[page] = "usr/share/man/man1/" + filepath.Base(page) + ".gz"
	}
	for from, to := range compressed {
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		data, err := gzipped(text)
		if err != nil {
			return err
		}
		files.add(to, data, 0o644)
	}
	head, err := os.ReadFile(filepath.Join(r.sources, "deploy", "debian", "copyright"))
	if err != nil {
		return err
	}
	files.add("usr/share/doc/streamwright/copyright", head, 0o644)
	notices, err := gzipped([]byte(r.notices))
	if err != nil {
		return err
	}
	files.add("usr/share/doc/streamwright/THIRD-PARTY-LICENSES.gz", notices, 0o644)
	return nil
}

// debControl makes what dpkg reads.
func (r *release) debControl(p platform, files tree) (tree, error) {
	control := tree{}
	var conffiles, sums strings.Builder
	size := 0
	for _, path := range files.paths() {
		data := files[path].data
		size += (len(data) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(data), path)
		if strings.HasPrefix(path, "etc/") {
			fmt.Fprintf(&conffiles, "/%s\n", path)
		}
	}
	folder := filepath.Join(r.sources, "deploy", "debian")
	head, err := os.ReadFile(filepath.Join(folder, "control"))
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("@VERSION@", debianVersion(r.version), "@ARCHITECTURE@", p.arch, "@SIZE@", fmt.Sprint(size)).Replace(string(head))
	control.add("control", []byte(text), 0o644)
	control.add("conffiles", []byte(conffiles.String()), 0o644)
	control.add("md5sums", []byte(sums.String()), 0o644)
	for _, name := range debianScripts {
		if err := control.copy(name, filepath.Join(folder, name), 0o755); err != nil {
			return nil, err
		}
	}
	return control, nil
}

// debianVersion is a version as Debian orders it: 1.2.3-rc.1 is before 1.2.3.
func debianVersion(v string) string { return strings.Replace(v, "-", "~", 1) }

// withFolders returns a tree as dpkg has it: each path begins with ./, and the folders are entries.
func withFolders(t tree) tree {
	all := tree{".": {nil, 0o755}}
	for path, e := range t {
		all["./"+path] = e
		for at, c := range path {
			if c == '/' {
				all["./"+path[:at]] = entry{nil, 0o755}
			}
		}
	}
	return all
}
