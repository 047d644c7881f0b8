package pagetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/workers"
)

// schedule is a schedule by its name; nil: there is none.
func (w *world) schedule(name string) *streamwright.ScheduleInfo {
	w.t.Helper()
	list, err := w.client.Schedules().List(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func TestAScheduleIsMadeAndChanged(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.submit(itemOf("report"))
	p := open(t, desktop, w.url+"#/schedules")
	p.see(".empty", "No schedules")
	p.click(".screen-head", "New schedule")
	p.sends()
	p.click("dialog .dialog-buttons", "Create")
	p.see("dialog .field-error", "Enter a name")
	p.set("dialog input[name=name]", "nightly")
	p.fill("dialog input[name=type]", "report")
	p.see("dialog .params-from", "had no params")
	p.set("dialog textarea[name=params]", large)

	// The next ticks are shown in the time zone, and what is wrong with them at its field.
	p.expect("status 400", "(Bad Request)")
	p.set("dialog input[name=zone]", "Europe/Berlin")
	p.set("dialog input[name=cron]", "0 99 * * *")
	p.see("dialog .field-error", "the field hour")
	p.set("dialog input[name=cron]", "0 3 * * *")
	p.until(`document.querySelectorAll('dialog .ticks li').length === 5 && [...document.querySelectorAll('dialog .ticks li')].every((li) => / 03:00 \+0[12]:00/.test(li.innerText))`)
	p.set("dialog input[name=zone]", "Europe/Nowhere")
	p.until(`document.querySelector('dialog input[name=zone]').closest('.field').querySelector('.field-error').innerText.includes('no time zone')`)
	p.set("dialog input[name=zone]", "Europe/Berlin")
	p.until(`document.querySelectorAll('dialog .ticks li').length === 5`)
	p.click("dialog summary", "Options")
	p.choose("dialog select[name=overlap]", "merge")
	p.choose("dialog select[name=priority]", "8")
	p.set("dialog textarea[name=labels]", "team=billing")
	p.click("dialog .dialog-buttons", "Create")
	p.said("nightly is set")
	if sent := p.sent("PUT /api/v1/schedules/nightly"); len(sent) != 1 || !strings.HasSuffix(sent[0], `"params":`+large+`}`) {
		t.Errorf("sent was %q", sent)
	}
	s := w.schedule("nightly")
	if s == nil || s.Cron != "0 3 * * *" || s.Zone != "Europe/Berlin" || s.Overlap != "merge" || int(*s.Priority) != 8 || s.Labels["team"] != "billing" || s.Paused || !strings.Contains(string(s.Params), "12345678901234567890") {
		t.Fatalf("it is %+v", s)
	}

	// Another of the same name does not take its place.
	p.click(".screen-head", "New schedule")
	p.set("dialog input[name=name]", "nightly")
	p.fill("dialog input[name=type]", "report")
	p.set("dialog textarea[name=params]", "{}")
	p.choose("dialog select[name=kind]", "every")
	p.set("dialog input[name=every]", "15m")
	p.see("dialog .preview", "in UTC")
	p.click("dialog .dialog-buttons", "Create")
	p.see("dialog .field-error", "Schedule nightly exists already")
	p.set("dialog input[name=name]", "quarterly")
	p.click("dialog .dialog-buttons", "Create")
	p.said("quarterly is set")
	if s := w.schedule("quarterly"); s == nil || s.Every.Duration != 15*time.Minute || s.Zone != "" || s.Priority != nil {
		t.Errorf("it is %+v", s)
	}

	// What is not changed stays, to the last digit.
	p.click(`tr[data-name="nightly"]`, "nightly")
	p.see(".panel-schedule", "12345678901234567890")
	p.click(".screen-head", "Edit")
	p.until(`document.querySelector('dialog textarea[name=params]').value.includes('12345678901234567890') && document.querySelector('dialog input[name=name]').readOnly && document.querySelector('dialog details').open`)
	p.until(`document.querySelector('dialog select[name=priority]').value === '8' && document.querySelector('dialog textarea[name=labels]').value === 'team=billing'`)
	p.set("dialog input[name=cron]", "30 4 * * mon-fri")
	p.until(`document.querySelector('dialog .ticks')?.innerText.includes(' 04:30 ')`)
	p.click("dialog .dialog-buttons", "Save")
	p.said("nightly is saved")
	p.see(".panel-schedule .ticks", " 04:30 ")
	s = w.schedule("nightly")
	if s.Cron != "30 4 * * mon-fri" || s.Overlap != "merge" || int(*s.Priority) != 8 || !strings.Contains(string(s.Params), "12345678901234567890") || !strings.Contains(string(s.Params), "1.50") {
		t.Errorf("it is %+v", s)
	}
}

func TestAScheduleListsItsRuns(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.worker("reporter", 2, map[string]workers.Handler{"report": func(context.Context, *workers.RawItem) (any, error) { return "done", nil }})
	if _, err := w.client.Schedules().Set(w.ctx, streamwright.Schedule{Name: "nightly", Type: "report", Cron: "0 3 * * *", Zone: "Europe/Berlin", Params: map[string]bool{"full": true}}); err != nil {
		t.Fatal(err)
	}
	other := w.submit(itemOf("report"))
	w.await(other, events.StateCompleted)
	p := open(t, desktop, w.url+"#/schedules/nightly")
	p.see(".panel-runs", "It has made no items yet")
	p.see(".panel-schedule .ticks", " 03:00 +0")
	p.click(".screen-head", "Fire nightly now")
	p.click("dialog .dialog-buttons", "Fire")
	p.said("nightly has made an item")
	p.see(".panel-runs .work-table", "completed")
	var ids []string
	for range 52 {
		sub, err := w.client.Schedules().Fire(w.ctx, "nightly")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.ID)
	}
	last := ids[len(ids)-1]
	for _, id := range ids {
		w.await(id, events.StateCompleted)
	}
	p.press("r")
	p.see(".panel-runs .pager", "Page 1: 50 runs")
	p.until(`!document.querySelector('.panel-runs [data-id="` + other + `"]')`)
	p.press("]")
	p.see(".panel-runs .pager", "Page 2: 3 runs")
	p.click(".panel-runs .panel-head", "Filter them in the list of work")
	p.until(`location.hash === '#/work?schedule=nightly' && document.querySelectorAll('.work-table tbody tr').length === 50`)
	p.until(`document.querySelector('.more-filters').open && document.querySelector('input[name="schedule"]').value === 'nightly'`)
	p.see(".work-table", tail(last))
	p.gone(".work-table", tail(other))

	// Its runs are there when it is gone.
	p.eval(`location.hash = '#/schedules/nightly'`, nil)
	p.click(".screen-head", "Pause nightly")
	p.see(".screen-head", "paused")
	p.click(".screen-head", "Resume nightly")
	p.gone(".screen-head", "paused")
	p.click(".screen-head", "Remove nightly")
	p.click("dialog .dialog-buttons", "Remove")
	p.until(`location.hash === '#/schedules'`)
	p.expect("status 404", "404 (Not Found)")
	p.eval(`location.hash = '#/schedules/nightly'`, nil)
	p.see(".empty", "No such schedule")
	p.see(".panel-runs .pager", "50 runs")

	// What engine.toml sets is shown, and can only be fired.
	p.eval(`location.hash = '#/schedules/rollup'`, nil)
	p.see(".notice", "Set in engine.toml")
	p.see(".panel-schedule", "every 1h")
	p.until(`[...document.querySelectorAll('.screen-head .button')].filter((b) => b.disabled && b.title.includes('engine.toml')).map((b) => b.firstChild.data).join() === 'Edit,Pause,Remove'`)
	p.press("e")
	p.gone("dialog", "Edit")
}

// Runs come into sight while one looks.
func TestRunsAreLive(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, err := w.client.Schedules().Set(w.ctx, streamwright.Schedule{Name: "often", Type: "poll", Every: time.Second}); err != nil {
		t.Fatal(err)
	}
	p := open(t, phone, w.url+"#/schedules/often")
	p.until(`document.querySelectorAll('.panel-runs tbody tr').length > 2`)
	if got := w.schedule("often"); got.LastItem == "" {
		t.Errorf("it has not ticked: %+v", got)
	}
}
