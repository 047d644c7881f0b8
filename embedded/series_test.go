package embedded

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// 200 types, each used at one priority, have this many series at most; more than as
// many histograms as are asked for are counted together.
func TestSeriesOfManyTypes(t *testing.T) {
	const types, most = 200, 100 // series of a type
	e := mustStart(t, Options{Memory: true, HTTP: "127.0.0.1:0", Config: config.Config{Metrics: config.Metrics{TypeHistograms: 10}}})
	client, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := e.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Concurrency: 8})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]streamwright.Item, types)
	for i := range list {
		name := "type" + strconv.Itoa(i)
		list[i] = streamwright.Item{Type: name}
		workers.Handle(w, name, func(context.Context, *workers.Item[any]) (any, error) { return nil, nil })
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(context.WithoutCancel(t.Context()))
	subs, err := client.SubmitMany(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subs {
		if _, err := client.Wait(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing goes uncounted, though it is counted beside the answers.
	var page string
	var runs, own int
	need.Eventually(t, "all items in histograms", func() bool {
		_, page = fetch(t, "http://"+e.HTTP()+"/metrics")
		runs, own = 0, 0
		for _, m := range regexp.MustCompile(`(?m)^streamwright_item_seconds_count\{outcome="completed",type="([^"]+)"\} (\d+)$`).FindAllStringSubmatch(page, -1) {
			n, _ := strconv.Atoi(m[2])
			if runs += n; m[1] != "(others)" {
				own++
			}
		}
		return runs >= types
	})
	n := strings.Count(page, "\nstreamwright_")
	t.Logf("%d series", n)
	if n > types*most {
		t.Errorf("%d series of %d types, want %d of a type at most", n, types, most)
	}
	if runs != types || own != 10 {
		t.Errorf("%d of %d items are in histograms, those of %d types in their own", runs, types, own)
	}
}
