package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
)

// What is said of the load holds for any million of items.
func TestItemsAreOfManyKinds(t *testing.T) {
	const n = 20_000
	dead, later, waiting := 0, 0, 0
	for i := range n {
		it := item(i)
		if again := item(i); again.Type != it.Type || again.Labels["customer"] != it.Labels["customer"] {
			t.Fatalf("item %d is another each time", i)
		}
		switch {
		case it.Params.(work).Fail > 0:
			dead++
		case it.Delay > 0:
			later++
		case slices.Contains(idle, it.Type):
			waiting++
		}
	}
	for what, c := range map[string]struct{ n, percent int }{"dead": {dead, 5}, "for later": {later, 5}, "waiting": {waiting, 30}} {
		if got := 100 * float64(c.n) / n; got < float64(c.percent)-1 || got > float64(c.percent)+1 {
			t.Errorf("%.1f %% are %s, want %d", got, what, c.percent)
		}
	}
}

// All that has to do with no browser, on a small engine.
func TestLoadDriveAndAsk(t *testing.T) {
	e, err := embedded.Start(context.Background(), embedded.Options{Memory: true, NATSListen: "127.0.0.1:0", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	for _, args := range [][]string{
		{"load", "-server", e.URL(), "-items", "1200"},
		{"drive", "-server", e.URL(), "-rate", "500", "-for", "300ms"},
		{"ask", "-http", "http://" + e.HTTP(), "-times", "1"},
	} {
		var out strings.Builder
		if err := run(context.Background(), args, &out, &out); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out.String())
		}
		want := map[string]string{"load": "1200 items in", "drive": "events a second", "ask": "| error, two words |"}[args[0]]
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s says %s", args[0], out.String())
		}
	}
	c, err := e.Client(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stats, err := c.Engine().Stats(context.Background())
	if err != nil || stats.States[events.StateDead.String()] < 30 || stats.States[events.StateCompleted.String()] < 600 || stats.States[events.StateQueued.String()] < 300 {
		t.Errorf("the items are %v, %v", stats.States, err)
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"dance"}, {"load", "-items", "0"}, {"drive", "-rate", "1"}, {"ask", "-nonsense"}} {
		var out strings.Builder
		if err := run(context.Background(), args, &out, &out); err == nil {
			t.Errorf("%q is not refused", args)
		}
	}
}
