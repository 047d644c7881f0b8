package check

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// debianRoot makes a root in which dpkg can install, from the files of this machine's packages: what maintainer
// scripts of Debian may count on, and what the package depends on. No service manager runs in it, as in a container.
func debianRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc/systemd/system", "tmp", "var/lib/systemd", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "dev"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for _, name := range []string{"sh", "rm", "rmdir", "mkdir", "chown", "chmod", "install", "grep", "dpkg-statoverride", "userdel", "perl", "deb-systemd-helper", "deb-systemd-invoke", "systemd-sysusers"} {
		files = append(files, program(t, name))
	}
	for line := range strings.Lines(said(t, root, "dpkg", "-L", "perl-base")) {
		path := strings.TrimSpace(line)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && strings.Contains(path, "/perl-base/") {
			files = append(files, path)
		}
	}
	library := regexp.MustCompile(`(/\S+) \(0x`)
	for _, path := range files {
		if strings.HasSuffix(path, ".pm") || strings.HasSuffix(path, ".pl") {
			continue
		}
		out, _ := exec.Command("ldd", path).Output() // of a script it has nothing to say
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			files = append(files, m[1])
		}
	}
	// bin is usr/bin in the root, whichever of them a program was found in.
	said(t, root, "cp", append([]string{"--dereference", "--preserve=mode", "--parents", "-t", root}, files...)...)
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/shadow": "root:*:1::::::\n", "etc/gshadow": "root:*::\n", "etc/.pwd.lock": "",
		"var/lib/dpkg/status": installedPackage("init-system-helpers") + installedPackage("passwd") + installedPackage("systemd"),
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mknod(filepath.Join(root, "dev", "null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		if err := os.WriteFile(filepath.Join(root, "dev", "null"), nil, 0o666); err != nil { // where devices can't be made
			t.Fatal(err)
		}
	}
	return root
}

// installedPackage is what dpkg's status has of a package.
func installedPackage(name string) string {
	return "Package: " + name + "\nStatus: install ok installed\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a package\n\n"
}

// content lists what is in a root, but for what dpkg notes.
func content(t *testing.T, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && !strings.HasPrefix(name, "var/lib/dpkg") && !strings.HasSuffix(name, "-") { // the backups of passwd
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The Debian package is installed, upgraded, removed and purged. Edits of the configuration are kept by all but the
// last, and data by all.
func TestDebian(t *testing.T) {
	t.Parallel()
	dpkg := program(t, "dpkg")
	released(t)
	first := filepath.Join(release.files, "streamwright_"+version+"_"+runtime.GOARCH+".deb")
	if os.Geteuid() != 0 {
		t.Skip("only root may install")
	}
	root := debianRoot(t)
	before := content(t, root)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(dpkg, append([]string{"--root=" + root, "--log=/dev/null", "--force-confdef", "--force-confold", "--force-unsafe-io"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dpkg %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	path := func(name string) string { return filepath.Join(root, name) }
	text := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	run("--install", first)
	if user := text("etc/passwd"); !strings.Contains(user, "\nstreamwright:x:") || !strings.Contains(user, ":/var/lib/streamwright:") {
		t.Errorf("the users are\n%s", user)
	}
	id := owner(t, path("var/lib/streamwright"))
	for name, mode := range map[string]fs.FileMode{"var/lib/streamwright": 0o700, "etc/streamwright/secrets": 0o750, "etc/streamwright/engine.toml": 0o640} {
		info, err := os.Stat(path(name))
		if err != nil || info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Gid == 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Lstat(path("etc/systemd/system/multi-user.target.wants/streamwright.service")); err != nil {
		t.Errorf("the service is not enabled: %v", err)
	}
	for _, name := range []string{"usr/share/man/man1/streamwright-serve.1.gz", "usr/share/man/man1/streamwright-tail.1.gz", "usr/share/bash-completion/completions/streamwright", "usr/share/doc/streamwright/copyright"} {
		if _, err := os.Stat(path(name)); err != nil {
			t.Error(err)
		}
	}
	if got := text("usr/lib/systemd/system/streamwright.service"); !strings.Contains(got, "\nUser=streamwright\n") || !strings.Contains(got, "\nExecStart=streamwright serve --config /etc/streamwright/engine.toml\n") {
		t.Errorf("the unit is\n%s", got)
	}
	serveInstalled(t, root, id)

	// The next version has another configuration, which the owner of this one does not want.
	const edit = "# our own\n"
	if err := os.WriteFile(path("etc/streamwright/engine.toml"), []byte(text("etc/streamwright/engine.toml")+edit), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("etc/streamwright/secrets/tokens"), []byte("secret\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	run("--install", nextDeb(t, first))
	if status := text("var/lib/dpkg/status"); !strings.Contains(status, "Version: 9.8.8\n") {
		t.Errorf("the status is\n%s", status)
	}
	if got := text("etc/streamwright/engine.toml"); !strings.HasSuffix(got, edit) {
		t.Errorf("the configuration is\n%s", got)
	}
	serveInstalled(t, root, id)

	run("--remove", "streamwright")
	if _, err := os.Stat(path("usr/bin/streamwright")); !os.IsNotExist(err) {
		t.Errorf("the program is still there: %v", err)
	}
	if got := text("etc/streamwright/engine.toml"); !strings.HasSuffix(got, edit) {
		t.Errorf("the configuration is\n%s", got)
	}
	data := content(t, path("var/lib/streamwright"))
	if !slices.Contains(data, "jetstream") {
		t.Fatalf("the engine's data is %v", data)
	}
	if out := run("--purge", "streamwright"); !strings.Contains(out, "/var/lib/streamwright is kept") {
		t.Errorf("it says\n%s", out)
	}
	if got := content(t, path("var/lib/streamwright")); !slices.Equal(got, data) {
		t.Errorf("the data is %v", got)
	}
	if users := text("etc/passwd"); !strings.Contains(users, "\nstreamwright:") {
		t.Errorf("the data's owner is no user any more:\n%s", users)
	}
	if _, err := os.Stat(path("etc/streamwright")); !os.IsNotExist(err) {
		t.Errorf("the configuration is still there: %v", err)
	}

	// Installed again, it has the data; and without data nothing is left.
	run("--install", first)
	if now := owner(t, path("var/lib/streamwright")); now != id {
		t.Errorf("the data is the user's %d, and was %d's", now, id)
	}
	if err := os.RemoveAll(path("var/lib/streamwright")); err != nil {
		t.Fatal(err)
	}
	run("--purge", "streamwright")
	if left := content(t, root); !slices.Equal(left, before) {
		for _, name := range left {
			if !slices.Contains(before, name) {
				t.Errorf("left: %s", name)
			}
		}
	}
	if users := text("etc/passwd"); strings.Contains(users, "streamwright") {
		t.Errorf("the users are\n%s", users)
	}
}

func owner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// serveInstalled runs the engine as the unit does, in the root and as its user, on other ports, until it is ready.
func serveInstalled(t *testing.T, root string, user uint32) {
	t.Helper()
	cmd := exec.Command("/usr/bin/streamwright", "serve", "--config", "/etc/streamwright/engine.toml", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	ready(t, cmd, os.Interrupt)
}

// nextDeb makes the package of a later version, with another configuration, by Debian's own tools.
func nextDeb(t *testing.T, of string) string {
	t.Helper()
	dir := t.TempDir()
	said(t, dir, "dpkg-deb", "-R", of, "next")
	for name, change := range map[string]func([]byte) []byte{
		"next/DEBIAN/control": func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("Version: "+version), []byte("Version: 9.8.8"))
		},
		"next/etc/streamwright/engine.toml": func(b []byte) []byte { return append(b, "log_format = \"json\"\n"...) },
	} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, change(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said(t, dir, "dpkg-deb", "--root-owner-group", "-Znone", "-b", "next", "next.deb")
	return filepath.Join(dir, "next.deb")
}
