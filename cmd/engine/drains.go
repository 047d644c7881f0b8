package main

import (
	"slices"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/cmd/internal/console"
)

// printDrains shows who has marked which workers to drain, and which of them are
// not there.
func (a *app) printDrains(workers []streamwright.WorkerInfo, drains []streamwright.DrainMark) {
	now := time.Now()
	for _, d := range drains {
		text := console.Clean(d.Worker) + ": " + drainText(d, now)
		if !slices.ContainsFunc(workers, func(w streamwright.WorkerInfo) bool { return w.Worker == d.Worker && w.DiedAt.IsZero() }) {
			text += "; it is not registered"
		}
		a.Printf("%s\n", text)
	}
}

// drainText says in a few words that a worker is marked to drain.
func drainText(d streamwright.DrainMark, now time.Time) string {
	text := "to drain since " + console.Ago(d.At, now)
	if d.By != "" {
		text += ", by " + d.By
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return console.Clean(text)
}
