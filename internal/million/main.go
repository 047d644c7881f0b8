// Command million tries the faces with as much as they promise to bear: it fills
// an engine with a million items of many kinds, keeps it busy with a thousand
// events a second, and measures what the list API and the page do meanwhile.
//
//	engine serve --dir /tmp/million --durability interval &
//	go -C internal/million run . load                   # some minutes
//	go -C internal/million run . ask                    # the HTTP API, each question many times
//	go -C internal/million run . drive &                # 1,000 events a second
//	go -C internal/million run . look                   # each screen in Chromium
//
// It is a tool for people, run on demand: the figures of docs/operate/PAGE.md and
// docs/guides/LISTING.md are its output. What it loads is a pure function of the
// items' number, so two runs load the same.
//
// It is a module of its own, so that users of the main one do not download chromedp.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options holds the values of the flags. Each command uses some of them.
type options struct {
	server   string        // of NATS
	http     string        // base address of the HTTP API
	items    int           // to load
	rate     int           // events a second
	duration time.Duration // of drive, or of look at each screen
	times    int           // that each question is asked
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "million:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	commands := map[string]func(context.Context, options, io.Writer) error{"load": load, "drive": drive, "ask": ask, "look": look}
	var o options
	fs := flag.NewFlagSet("million load|drive|ask|look", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.server, "server", "nats://127.0.0.1:4222", "load, drive: `address` of the engine's NATS server")
	fs.StringVar(&o.http, "http", "http://127.0.0.1:8484", "ask, look: base `address` of the engine's HTTP API")
	fs.IntVar(&o.items, "items", 1_000_000, "load: how many items")
	fs.IntVar(&o.rate, "rate", 1000, "drive: events a second")
	fs.DurationVar(&o.duration, "for", time.Minute, "drive: how long in all, 0 until interrupted; look: how long at each screen")
	fs.IntVar(&o.times, "times", 20, "ask: how often each question is asked")
	if len(args) == 0 || commands[args[0]] == nil {
		fs.Usage()
		return fmt.Errorf("say what to do: load, drive, ask or look")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if o.items < 1 || o.rate < eventsOfItem || o.times < 1 || o.duration < 0 {
		return fmt.Errorf("-items and -times must be 1 or more, -rate %d or more, -for not negative", eventsOfItem)
	}
	return commands[args[0]](ctx, o, stdout)
}
