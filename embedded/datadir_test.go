package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func TestDataDirIsExclusive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDataDir(dir)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d (this one)", os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatalf("second Close: %v", err)
	}
	d, err = openDataDir(dir)
	if err != nil {
		t.Fatalf("open after Close: %v", err)
	}
	d.Close()
}

// A killed process leaves its lock file, and no lock.
func TestDataDirOfOtherProcess(t *testing.T) {
	if dir := os.Getenv("EMBEDDED_TEST_HOLD"); dir != "" {
		if _, err := openDataDir(dir); err != nil {
			t.Fatal(err)
		}
		fmt.Println("\nheld")
		select {}
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestDataDirOfOtherProcess$")
	child.Env = append(os.Environ(), "EMBEDDED_TEST_HOLD="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "held" {
	}
	_, err = openDataDir(dir)
	if want := fmt.Sprintf("is held by process %d:", child.Process.Pid); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("while the child holds it: %v, want %q", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatalf("after the child was killed: %v", err)
	}
	d.Close()
}

func TestDataDirVersion(t *testing.T) {
	tests := []struct{ name, content, want string }{
		{"newer", "5\n", "use a newer program"},
		{"older", "3\n", "which this one does not read: choose another folder"},
		{"damaged", "one", "not a number"},
		{"empty", "", "not a number"},
		{"zero", "0", "not a number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, versionFile), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := openDataDir(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if got := errors.Is(err, ErrNewerFormat); got != (tt.name == "newer") {
				t.Errorf("is ErrNewerFormat: %v", got)
			}
			// The refusal has let go of the lock.
			if err := os.Remove(filepath.Join(dir, versionFile)); err != nil {
				t.Fatal(err)
			}
			d, err := openDataDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			d.Close()
		})
	}
}

func TestDataDirNotWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if d, err := openDataDir(dir); err == nil {
			d.Close()
			t.Errorf("%q was opened", dir)
		}
	}
}

func TestFreeSpace(t *testing.T) {
	n, err := FreeSpace(t.TempDir())
	if err != nil || n == 0 {
		t.Fatalf("free space %d, %v", n, err)
	}
	if _, err := FreeSpace(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Fatal("no error for a folder that is not there")
	}
}

// docs/operate/UPGRADE.md names the formats that this program writes.
func TestUpgradeNamesTheFolderFormats(t *testing.T) {
	page, err := os.ReadFile("../docs/operate/UPGRADE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("in the file `VERSION`, now %d:", FormatVersion),
		fmt.Sprintf("the **format level**, now %d:", events.FormatLevel),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
