package core

import (
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
)

// goldenSchedules is the part of the golden world that has a schedule in it.
func goldenSchedules(w *world) {
	high := events.PriorityHigh
	nine := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	w.do(SetSchedule{Schedule: events.Schedule{
		Name: "morning-report", Type: "report", Cron: "0 9 * * mon-fri", Zone: "Europe/Berlin", Missed: events.MissedOne, Overlap: events.DedupMerge,
		Params: json.RawMessage(`{"for": "a <b>"}`), Priority: &high, Tenant: "acme", Labels: map[string]string{"team": "billing"},
		MaxAttempts: 2, Timeout: events.Millis(60_000), Source: events.SourceFile, Next: nine,
	}})
	w.do(SetSchedule{Schedule: events.Schedule{Name: "sweep", Type: "clean", Every: events.Millis(60_000), Anchor: nine, Source: events.SourceAPI, Next: nine}})
	w.do(PauseSchedule{Name: "sweep", Paused: true})
	w.now = nine
	w.do(Fire{Name: "morning-report", Tick: nine, Next: nine.Add(24 * time.Hour), NewID: w.newID()}) // of a new type
	w.now = nine.Add(48*time.Hour + time.Second)
	w.do(Fire{Name: "morning-report", Tick: nine.Add(48 * time.Hour), Next: nine.Add(72 * time.Hour), Skipped: 1, NewID: w.newID()}) // merged
	w.do(PauseSchedule{Name: "sweep"})
	w.do(Fire{Name: "sweep", Tick: nine.Add(48 * time.Hour), Next: nine.Add(48*time.Hour + time.Minute), Skip: true, Skipped: 2881})
	w.do(Fire{Name: "sweep", NewID: w.newID()}) // by hand
	w.do(SetSchedule{Schedule: events.Schedule{Name: "sweep", Type: "clean", Every: events.Millis(60_000), Anchor: nine, Source: events.SourceAPI, Labels: map[string]string{"dry": "no"}, Params: json.RawMessage(`[1, 2]`)}})
	w.do(Configure{Type: "clean", Source: events.SourceAPI, Settings: func() events.TypeSettings { s := events.DefaultTypeSettings(); s.MaxParams = 2; return s }()})
	w.now = nine.Add(48*time.Hour + time.Minute)
	w.do(Fire{Name: "sweep", Tick: w.now, Next: w.now.Add(time.Minute), NewID: w.newID()}) // refused: its params are too large
	w.do(RemoveSchedule{Name: "sweep", Source: events.SourceAPI})
}
