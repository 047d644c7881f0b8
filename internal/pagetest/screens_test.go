package pagetest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// UpdateScreens is the environment variable that has the screenshots of the
// documentation written anew.
const updateScreens = "UPDATE_SCREENS"

// screenFolder is where the documentation has its screenshots.
const screenFolder = "../../docs/screens"

// maxScreen bounds a screenshot, in bytes.
const maxScreen = 250_000

// busy gives the engine so much time of work that comes in waves, so that the
// charts have something to show.
func (w *world) busy(d time.Duration) {
	w.worker("images-1", 6, map[string]workers.Handler{"resize": func(ctx context.Context, it *workers.RawItem) (any, error) {
		select {
		case <-time.After(60 * time.Millisecond): // the work
		case <-ctx.Done():
		}
		return nil, context.Cause(ctx)
	}})
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for time.Since(began) < d {
		<-tick.C
		wave := math.Sin(time.Since(began).Seconds() / d.Seconds() * 3 * math.Pi)
		for range int(24 + 22*wave) {
			w.submit(itemOf("resize"))
		}
		for range int(8 - 5*wave) {
			w.submit(streamwright.Item{Type: "email", Params: map[string]string{"to": "all@example.org"}})
		}
		if time.Since(began) < d/3 && int(time.Since(began).Seconds())%7 == 0 {
			w.submit(streamwright.Item{Type: "charge", Params: map[string]any{"order": 8}})
		}
	}
}

func TestScreens(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := w.seed()
	for i := range 3 { // of some kinds more, for the list
		w.submit(streamwright.Item{Type: "email", Params: map[string]string{"mode": "flaky"}, Tenant: "acme", Labels: map[string]string{"env": "prod"}})
		w.submit(streamwright.Item{Type: "charge", Params: map[string]int{"order": i}, Tenant: "globex"})
		w.submit(streamwright.Item{Type: "report", Labels: map[string]string{"month": "2030-02"}})
	}
	folder := t.TempDir()
	update := os.Getenv(updateScreens) != ""
	if update {
		folder = screenFolder
	}
	for _, c := range []struct {
		name, hash string
		view       view
		selector   string
		text       string
	}{
		{"work", "#/work", desktop, ".work-table", "card_declined"},
		{"work-phone", "#/work?state=dead", phone, ".work-table", "card_declined"},
		{"overview", "#/", desktop, ".need", "No worker for archive"},
		{"overview-dark", "#/", night, ".need", "No worker for archive"},
		{"overview-phone", "#/", phone, ".need", "No worker for archive"},
		{"item-running", "#/work/" + s.running, desktop, ".log-lines", "two-pass"},
		{"item-dead-dark", "#/work/" + s.dead, night, ".error-text", "declined"},
		{"item-phone", "#/work/" + s.retried, phone, ".history-table", "completed"},
		{"item-tree", "#/work/" + s.parent, desktop, ".tree", "transcode"},
	} {
		if update && c.name == "overview" {
			w.busy(2 * time.Minute)
		}
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
