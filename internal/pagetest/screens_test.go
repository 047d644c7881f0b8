package pagetest

import (
	"os"
	"path/filepath"
	"testing"
)

// UpdateScreens is the environment variable that has the screenshots of the
// documentation written anew.
const updateScreens = "UPDATE_SCREENS"

// screenFolder is where the documentation has its screenshots.
const screenFolder = "../../docs/screens"

// maxScreen bounds a screenshot, in bytes.
const maxScreen = 200 << 10

func TestScreens(t *testing.T) {
	w := start(t)
	s := w.seed()
	folder := t.TempDir()
	if os.Getenv(updateScreens) != "" {
		folder = screenFolder
	}
	for _, c := range []struct {
		name, hash string
		view       view
		selector   string
		text       string
	}{
		{"overview", "#/", desktop, ".need", "No worker for archive"},
		{"overview-dark", "#/", night, ".need", "No worker for archive"},
		{"overview-phone", "#/", phone, ".need", "No worker for archive"},
		{"work", "#/work", desktop, ".work-table", "invoice"},
		{"work-phone", "#/work", phone, ".work-table", "invoice"},
		{"item-running", "#/work/" + s.running, desktop, ".log-lines", "two-pass"},
		{"item-dead-dark", "#/work/" + s.dead, night, ".error-text", "declined"},
		{"item-phone", "#/work/" + s.retried, phone, ".history-table", "completed"},
		{"item-tree", "#/work/" + s.parent, desktop, ".tree", "transcode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, c.view, w.url+c.hash)
			p.see(".connection", "")
			p.until(`document.documentElement.dataset.phase === 'live'`)
			p.see(c.selector, c.text)
			file := filepath.Join(folder, c.name+".png")
			p.shot(file)
			info, err := os.Stat(file)
			if err != nil || info.Size() > maxScreen || info.Size() < 5000 {
				t.Errorf("screenshot %s: %v, %d bytes", file, err, info.Size())
			}
		})
	}
}
