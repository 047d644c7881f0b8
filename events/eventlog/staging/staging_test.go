package staging

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

func roomy(string) (uint64, error) { return 1 << 30, nil }

// stream returns the folder of a stream, and what stages it.
func stream(t *testing.T) (dir string, f *Folder) {
	t.Helper()
	dir = t.TempDir()
	if f = Open(dir, roomy, slog.New(slog.DiscardHandler)); f == nil {
		t.Skip("there is no file system in memory here")
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(f.dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there", f.dir)
		}
	})
	return dir, f
}

func write(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReady(t *testing.T) {
	dir, f := stream(t)
	link := filepath.Join(dir, folderName)
	for range 2 { // made, and found
		if !f.Ready(1 << 20) {
			t.Fatal("nothing is staged in memory")
		}
		write(t, filepath.Join(link, "a"))
		if _, err := os.Stat(filepath.Join(f.dir, "a")); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(link); err != nil { // as a server does that starts
		t.Fatal(err)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	if !f.Ready(1 << 20) {
		t.Error("link and folder are gone and were not made anew")
	}
	f.free = func(string) (uint64, error) { return spare + 1<<20, nil }
	if !f.Ready(1 << 19) {
		t.Error("an append for which there is just room is not staged")
	}
	if f.Ready(1<<19 + 1) {
		t.Error("an append is staged for which there is no room")
	}
	f.free = roomy
	if _, err := os.Lstat(link); !os.IsNotExist(err) {
		t.Error("without room, the link is still there")
	}
	if f.Ready(1) {
		t.Error("the folder is used again")
	}
}

// TestNotOurs leaves alone what others have made.
func TestNotOurs(t *testing.T) {
	dir, f := stream(t)
	if err := os.Mkdir(filepath.Join(dir, folderName), 0o700); err != nil {
		t.Fatal(err)
	}
	if f.Ready(1) {
		t.Error("the server's own folder counts as memory")
	}

	dir, f = stream(t)
	if err := os.RemoveAll(f.dir); err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(string) error{
		"a link":               func(name string) error { return os.Symlink(t.TempDir(), name) },
		"a folder all may use": func(name string) error { return os.Mkdir(name, 0o755) },
	} {
		if err := forge(f.dir); err != nil {
			t.Fatal(err)
		}
		if g := Open(dir, roomy, slog.New(slog.DiscardHandler)); g != nil {
			t.Errorf("%s in place of the folder was accepted", name)
		}
		if err := os.RemoveAll(f.dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLeftovers(t *testing.T) {
	dir, f := stream(t)
	write(t, filepath.Join(f.dir, "of a process that was killed"))
	if g := Open(dir, roomy, slog.New(slog.DiscardHandler)); g == nil || !g.Ready(1) {
		t.Fatal("the folder can't be opened again")
	}
	if left, err := os.ReadDir(f.dir); err != nil || len(left) > 0 {
		t.Errorf("the folder has %v, %v; want it empty", left, err)
	}
}

func TestNone(t *testing.T) {
	if inMemory("/proc") {
		t.Error("another file system counts as memory")
	}
	var f *Folder
	if f.Ready(1) || f.Close() != nil {
		t.Error("no folder does not behave as none")
	}
}
