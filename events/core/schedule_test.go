package core

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
)

// largestSchedule makes the largest events that a schedule can have.
func largestSchedule(w *world, typ events.Type, long func(int) string) {
	p := events.MaxPriority
	s := events.Schedule{Name: strings.Repeat("n", events.MaxTypeLen), Type: typ, Cron: long(events.MaxScheduleText), Zone: strings.Repeat("z", events.MaxScheduleText), Missed: events.MissedSkip,
		Overlap: events.DedupSupersede, Params: json.RawMessage(`"` + strings.Repeat("<", events.MaxScheduleParams-2) + `"`), Priority: &p, Tenant: long(events.MaxNameLen),
		Labels: map[string]string{}, MaxAttempts: events.MaxAttemptsCeiling, Timeout: events.DurationOf(events.MaxTimeout), Source: events.SourceFile, Next: w.now}
	for i := range events.MaxLabels - 1 {
		s.Labels[string(rune('A'+i))+long(events.MaxLabelLen-1)] = long(events.MaxLabelLen)
	}
	w.do(SetSchedule{Schedule: s})
	w.do(Fire{Name: s.Name, Tick: w.now, Next: w.now.Add(time.Hour), NewID: w.newID()})
	w.do(RemoveSchedule{Name: s.Name, Source: events.SourceFile})
}

func minutely(w *world, edit func(*events.Schedule)) events.Schedule {
	s := events.Schedule{Name: "sweep", Type: "clean", Every: events.Millis(60_000), Anchor: w.now, Source: events.SourceAPI, Next: w.now.Add(time.Minute)}
	if edit != nil {
		edit(&s)
	}
	w.do(SetSchedule{Schedule: s})
	return s
}

func (w *world) schedule(name string) events.Schedule {
	w.t.Helper()
	s, ok := w.s.Schedule(name)
	if !ok {
		w.t.Fatalf("there is no schedule %s", name)
	}
	return s
}

func TestATickMakesOneItem(t *testing.T) {
	w := newWorld(t)
	s := minutely(w, func(s *events.Schedule) {
		s.Params = json.RawMessage(` {"a": "<"} `)
		s.Labels = map[string]string{"k": "v"}
	})
	fire := Fire{Name: "sweep", Tick: s.Next, Next: s.Next.Add(time.Minute), NewID: w.newID()}
	w.refused(events.CodeBadTime, fire) // it has not come
	w.now = s.Next
	id := w.do(fire).ID
	it := w.item(id)
	if it.Provenance != (events.Provenance{Source: "schedule", Trigger: "sweep"}) || it.Labels[events.LabelTick] != "2026-01-02T03:05:05.000000678Z" || it.Labels["k"] != "v" || it.DedupKey != "" {
		t.Fatalf("%+v", it)
	}
	if p, _ := w.s.Params(id); string(p) != `{"a":"\u003c"}` {
		t.Fatalf("%s", p)
	}
	again := fire
	again.NewID = w.newID()
	if d := w.do(again); !d.Repeat || len(d.Events) != 0 || d.ID != id {
		t.Fatalf("the tick was answered twice: %+v", d)
	}
	if got := w.schedule("sweep"); !got.Next.Equal(fire.Next) || !got.LastTick.Equal(fire.Tick) || got.LastItem != id {
		t.Fatalf("%+v", got)
	}
	w.now = fire.Next
	w.refused(events.CodeBadTime, Fire{Name: "sweep", Tick: w.now, Next: w.now, NewID: w.newID()})
	w.refused(events.CodeBadTime, Fire{Name: "sweep", Tick: w.now, Next: w.now.Add(1), Skipped: -1, NewID: w.newID()})
	w.refused(events.CodeNotFound, Fire{Name: "other", Tick: w.now, NewID: w.newID()})
	w.do(Fire{Name: "sweep", Tick: w.now, NewID: w.newID()}) // the last one
	if d := w.do(Fire{Name: "sweep", Tick: w.now.Add(time.Hour), NewID: w.newID()}); !d.Repeat {
		t.Fatalf("a schedule that has ended has fired: %+v", d)
	}
	w.readBack()
}

func TestATickMergesIntoTheLastItem(t *testing.T) {
	w := newWorld(t)
	s := minutely(w, func(s *events.Schedule) { s.Overlap = events.DedupMerge })
	var ids []events.ID
	for range 3 {
		w.now = w.schedule("sweep").Next
		ids = append(ids, w.do(Fire{Name: s.Name, Tick: w.now, Next: w.now.Add(time.Minute), NewID: w.newID()}).ID)
	}
	w.state(ids[2], events.StateMerged)
	if it := w.item(ids[2]); it.MergedInto != ids[0] || it.DedupKey != "schedule:sweep" {
		t.Fatalf("%+v", it)
	}
	w.do(Complete{Run: w.claim(ids[0], 1)})
	w.now = w.schedule("sweep").Next
	w.state(w.do(Fire{Name: s.Name, Tick: w.now, Next: w.now.Add(time.Minute), NewID: w.newID()}).ID, events.StateQueued)
	w.readBack()
}

// The tick is answered even if its submission is not accepted.
func TestARefusedSubmissionDoesNotStopTheSchedule(t *testing.T) {
	w := newWorld(t)
	set := events.DefaultTypeSettings()
	set.MaxParams = 2
	w.do(Configure{Type: "clean", Source: events.SourceAPI, Settings: set})
	s := minutely(w, func(s *events.Schedule) { s.Params = json.RawMessage(`[1,2]`) })
	w.now = s.Next
	if d := w.do(Fire{Name: "sweep", Tick: s.Next, Next: s.Next.Add(time.Minute), NewID: w.newID()}); !d.ID.IsZero() || len(w.log) != 3 {
		t.Fatalf("%+v", d)
	}
	if got := w.schedule("sweep"); got.LastCode != events.CodeTooLarge || got.LastError == "" || !got.LastItem.IsZero() || !got.Next.Equal(s.Next.Add(time.Minute)) {
		t.Fatalf("%+v", got)
	}
	set.MaxParams = 100
	w.do(Configure{Type: "clean", Source: events.SourceAPI, Settings: set})
	w.now = s.Next.Add(time.Minute)
	w.do(Fire{Name: "sweep", Tick: w.now, NewID: w.newID()})
	if got := w.schedule("sweep"); got.LastCode != "" || got.LastError != "" || got.LastItem.IsZero() {
		t.Fatalf("%+v", got)
	}
	w.readBack()
}

func TestFiringByHandIsNoTick(t *testing.T) {
	w := newWorld(t)
	minutely(w, func(s *events.Schedule) { s.Paused = true })
	before := w.schedule("sweep")
	id := w.do(Fire{Name: "sweep", NewID: w.newID()}).ID
	if it := w.item(id); it.Provenance.Trigger != "sweep" || it.Labels != nil {
		t.Fatalf("%+v", it)
	}
	if after := w.schedule("sweep"); !sameJSON(&before, &after) {
		t.Fatalf("%+v", after)
	}
}

func TestPausedSchedulesDoNotTick(t *testing.T) {
	w := newWorld(t)
	s := minutely(w, nil)
	w.do(PauseSchedule{Name: "sweep", Paused: true})
	if d := w.do(PauseSchedule{Name: "sweep", Paused: true}); !d.Repeat {
		t.Fatal("no repeat")
	}
	w.now = s.Next.Add(time.Hour)
	w.refused(events.CodeWrongState, Fire{Name: "sweep", Tick: s.Next, NewID: w.newID()})
	w.s.DueSchedules(func(string, time.Time) { t.Fatal("it is due") })
	w.do(PauseSchedule{Name: "sweep"})
	if got := w.schedule("sweep"); !got.Next.Equal(s.Next) {
		t.Fatalf("the pause has moved its ticks: %+v", got)
	}
	w.refused(events.CodeNotFound, PauseSchedule{Name: "other"})
}

// A schedule that is set again keeps its place, unless its timing is another;
// and never goes back behind a tick that was answered.
func TestSettingAScheduleAgain(t *testing.T) {
	w := newWorld(t)
	s := minutely(w, nil)
	if d := w.do(SetSchedule{Schedule: s}); !d.Repeat || len(d.Events) != 0 {
		t.Fatal("no repeat")
	}
	w.now = s.Next
	w.do(Fire{Name: "sweep", Tick: s.Next, Next: s.Next.Add(time.Minute), NewID: w.newID()})
	s.Tenant, s.Next = "acme", w.now.Add(time.Hour)
	w.do(SetSchedule{Schedule: s})
	if got := w.schedule("sweep"); !got.Next.Equal(w.now.Add(time.Minute)) || got.Tenant != "acme" || !got.LastTick.Equal(w.now) || got.LastItem.IsZero() {
		t.Fatalf("%+v", got)
	}
	s.Every, s.Next = events.Millis(1000), w.now
	w.refused(events.CodeBadTime, SetSchedule{Schedule: s})
	s.Next = w.now.Add(time.Second)
	w.do(SetSchedule{Schedule: s})
	if got := w.schedule("sweep"); !got.Next.Equal(s.Next) || !got.LastTick.Equal(w.now) {
		t.Fatalf("%+v", got)
	}
	w.readBack()
}

func TestTheFileOwnsItsSchedules(t *testing.T) {
	w := newWorld(t)
	s := minutely(w, nil)
	s.Source = events.SourceFile
	w.do(SetSchedule{Schedule: s}) // takes it over
	s.Source = events.SourceAPI
	w.refused(events.CodeSetInFile, SetSchedule{Schedule: s})
	w.refused(events.CodeSetInFile, RemoveSchedule{Name: "sweep", Source: events.SourceAPI})
	w.refused(events.CodeSetInFile, PauseSchedule{Name: "sweep", Paused: true})
	w.do(Fire{Name: "sweep", NewID: w.newID()}) // changes nothing of it
	w.do(RemoveSchedule{Name: "sweep", Source: events.SourceFile})
	w.refused(events.CodeNotFound, RemoveSchedule{Name: "sweep", Source: events.SourceFile})
	w.do(SetSchedule{Schedule: s})
	if d := w.do(RemoveSchedule{Name: "sweep", Source: events.SourceFile}); !d.Repeat {
		t.Fatal("the file has removed what it never had")
	}
	w.do(RemoveSchedule{Name: "sweep", Source: events.SourceAPI})
	w.readBack()
}

func TestRefusedSchedules(t *testing.T) {
	high := events.MaxPriority + 1
	many := map[string]string{}
	for i := range events.MaxLabels {
		many[fmt.Sprint(i)] = ""
	}
	for name, c := range map[string]struct {
		code events.Code
		edit func(*events.Schedule)
	}{
		"name":             {events.CodeBadRequest, func(s *events.Schedule) { s.Name = "No Name" }},
		"no name":          {events.CodeBadRequest, func(s *events.Schedule) { s.Name = "" }},
		"type":             {events.CodeBadType, func(s *events.Schedule) { s.Type = "" }},
		"no timing":        {events.CodeBadRequest, func(s *events.Schedule) { s.Every = events.Millis(0); s.Anchor = time.Time{} }},
		"both timings":     {events.CodeBadRequest, func(s *events.Schedule) { s.Cron = "* * * * *" }},
		"long cron":        {events.CodeBadRequest, func(s *events.Schedule) { s.Cron, s.Every = strings.Repeat("*", 257), events.Millis(0) }},
		"cron, no text":    {events.CodeBadRequest, func(s *events.Schedule) { s.Cron, s.Every, s.Anchor = "\xff", events.Millis(0), time.Time{} }},
		"cron with anchor": {events.CodeBadRequest, func(s *events.Schedule) { s.Cron, s.Every = "* * * * *", events.Millis(0) }},
		"every with zone":  {events.CodeBadRequest, func(s *events.Schedule) { s.Zone = "UTC" }},
		"too often":        {events.CodeBadRequest, func(s *events.Schedule) { s.Every = events.Millis(999) }},
		"too seldom":       {events.CodeBadRequest, func(s *events.Schedule) { s.Every = events.Millis(events.MaxDelay.Milliseconds() + 1) }},
		"no anchor":        {events.CodeBadRequest, func(s *events.Schedule) { s.Anchor = time.Time{} }},
		"anchor":           {events.CodeBadRequest, func(s *events.Schedule) { s.Anchor = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }},
		"never":            {events.CodeBadRequest, func(s *events.Schedule) { s.Next = time.Time{} }},
		"missed":           {events.CodeBadRequest, func(s *events.Schedule) { s.Missed = "some" }},
		"overlap":          {events.CodeBadRequest, func(s *events.Schedule) { s.Overlap = "queue" }},
		"source":           {events.CodeBadRequest, func(s *events.Schedule) { s.Source = events.SourceDefault }},
		"priority":         {events.CodeBadPriority, func(s *events.Schedule) { s.Priority = &high }},
		"attempts":         {events.CodeBadRequest, func(s *events.Schedule) { s.MaxAttempts = events.MaxAttemptsCeiling + 1 }},
		"timeout":          {events.CodeBadRequest, func(s *events.Schedule) { s.Timeout = events.Millis(-1) }},
		"tenant":           {events.CodeTooLarge, func(s *events.Schedule) { s.Tenant = strings.Repeat("x", events.MaxNameLen+1) }},
		"our label":        {events.CodeBadRequest, func(s *events.Schedule) { s.Labels = map[string]string{events.LabelTick: ""} }},
		"labels":           {events.CodeTooLarge, func(s *events.Schedule) { s.Labels = many }},
		"label":            {events.CodeBadRequest, func(s *events.Schedule) { s.Labels = map[string]string{"": ""} }},
		"params":           {events.CodeBadParams, func(s *events.Schedule) { s.Params = json.RawMessage(`{`) }},
		"large params": {events.CodeTooLarge, func(s *events.Schedule) {
			s.Params = json.RawMessage(`"` + strings.Repeat("x", events.MaxScheduleParams) + `"`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := events.Schedule{Name: "sweep", Type: "clean", Every: events.Millis(60_000), Anchor: w.now, Source: events.SourceAPI, Next: w.now.Add(time.Minute)}
			c.edit(&s)
			w.refused(c.code, SetSchedule{Schedule: s})
		})
	}
}

func TestSchedulesAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range events.MaxSchedules {
		minutely(w, func(s *events.Schedule) { s.Name = fmt.Sprintf("s%d", i) })
	}
	more := events.Schedule{Name: "more", Type: "clean", Every: events.Millis(60_000), Anchor: w.now, Source: events.SourceAPI, Next: w.now.Add(time.Minute)}
	w.refused(events.CodeTooLarge, SetSchedule{Schedule: more})
	w.do(RemoveSchedule{Name: "s7", Source: events.SourceAPI})
	w.do(SetSchedule{Schedule: more})
}

func TestCorruptScheduleEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	for name, b := range map[string]events.Body{
		"remove what is not there": &events.ScheduleRemoved{Name: "other", Source: events.SourceAPI},
		"fire what is not there":   &events.ScheduleFired{Name: "other", Tick: at},
		"an answered tick":         &events.ScheduleFired{Name: "sweep", Tick: at.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			minutely(w, nil)
			if err := w.s.Apply(events.Event{Seq: nextFrame(w.s), Kind: b.Kind(), At: w.now, Body: b}); err == nil {
				t.Error("it was applied")
			}
		})
	}
}

func TestFiringByHandMayBeRepeated(t *testing.T) {
	w := newWorld(t)
	minutely(w, nil)
	c := Fire{Name: "sweep", ID: w.newID(), NewID: w.newID()}
	if d := w.do(c); d.ID != c.ID || d.Repeat {
		t.Fatalf("%+v", d)
	}
	if d := w.do(c); d.ID != c.ID || !d.Repeat {
		t.Fatalf("%+v", d)
	}
}
