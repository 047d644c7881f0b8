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
