package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wide lists what makes a page wider than the screen. A phone would show such a
// page smaller, so innerWidth is no measure.
const wide = `(() => {
	const root = document.scrollingElement;
	if (root.scrollWidth <= root.clientWidth && innerWidth <= root.clientWidth) return [];
	return [...document.querySelectorAll('body *')].filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1 && !el.closest('.scroll-x')).slice(0, 8).map((el) => el.tagName + '.' + el.className + ' ' + el.getBoundingClientRect().right + ' ' + (el.id || el.name || el.textContent.slice(0, 30))).concat('the page is ' + root.scrollWidth + ' wide, shown in ' + innerWidth);
})()`

// short lists what is too low to be touched.
const short = `[...document.querySelectorAll('nav a, .button, .icon-button, .chip')].filter((el) => el.checkVisibility() && el.getBoundingClientRect().height < 24).map((el) => el.outerHTML.slice(0, 100))`

// operated are the screens of operators, by what they are to show.
func (w *world) operated(s trouble) map[string][3]string {
	return map[string][3]string{
		"dead":      {"#/dead", ".causes", "growing"},
		"cause":     {"#/dead?items=1&type=charge", ".dead-items", "card_declined"},
		"rejected":  {"#/dead?show=rejected", ".rejected", "email"},
		"original":  {fmt.Sprintf("#/dead?show=rejected&seq=%d", w.rejected()[1].Seq), ".panel-original", "kelly"},
		"types":     {"#/types", ".all-types", "circuit open"},
		"type":      {"#/types/email", ".settings", "engine.toml"},
		"circuit":   {"#/types/fetch", ".notice-bad", "Circuit"},
		"workers":   {"#/workers", ".w-runs", "42 %"},
		"schedules": {"#/schedules", ".schedules", "nightly"},
		"schedule":  {"#/schedules/nightly", ".panel-schedule .ticks", " 03:00 "},
		"of file":   {"#/schedules/rollup", ".notice", "Set in engine.toml"},
		"events":    {"#/events?since=1h", ".events", "failed"},
	}
}

// cause opens the cause that a screen's address does not know.
func (p *tab) cause() {
	p.t.Helper()
	p.click(".causes", "was declined by the bank")
	p.see(".panel-cause", "Dead now")
	p.see(".dead-items", "card_declined")
}

// newItem opens the form of an item, and says what it is to be.
func (p *tab) newItem() {
	p.t.Helper()
	p.click(".screen-head", "New item")
	p.fill("dialog input[name=type]", "charge")
	p.see("dialog .params-from", "changed last")
	p.click("dialog summary", "Options")
	p.choose("dialog select[name=when]", "delay")
	p.set("dialog input[name=delay]", "10m")
}

// newSchedule opens the form of a schedule, and says when it is to tick.
func (p *tab) newSchedule() {
	p.t.Helper()
	p.click(".screen-head", "New schedule")
	p.set("dialog input[name=name]", "weekly")
	p.fill("dialog input[name=type]", "charge")
	p.see("dialog .params-from", "changed last")
	p.set("dialog input[name=zone]", "Europe/Berlin")
	p.set("dialog input[name=cron]", "0 3 * * mon")
	p.until(`document.querySelectorAll('dialog .ticks li').length === 5`)
}

// fireTwice has a schedule make two items.
func (w *world) fireTwice(name string) {
	w.t.Helper()
	for range 2 {
		if _, err := w.client.Schedules().Fire(w.ctx, name); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The forms have names, contrast and room on every device, with all that they can
// complain of.
func TestFormsOnEveryDevice(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	w.seedTrouble()
	for device, v := range map[string]view{"light": desktop, "dark": night, "phone": phone} {
		for name, c := range map[string]struct {
			hash string
			open func(*tab)
		}{"item": {"#/work", (*tab).newItem}, "schedule": {"#/schedules", (*tab).newSchedule}} {
			t.Run(name+" "+device, func(t *testing.T) {
				p := open(t, v, w.url+c.hash)
				p.until(`document.documentElement.dataset.phase === 'live'`)
				c.open(p)
				p.eval(`document.querySelector('dialog details').open = true`, nil)
				p.fill("dialog input[name=type]", "chrage")
				p.set("dialog textarea[name=params]", `{"order": nine}`)
				p.see("dialog .new-type", "Create the new type")
				p.see("dialog .field-error", "line 1, column 11")
				checks := map[string]string{"names": unnamed, "contrast": pale}
				if device == "phone" {
					checks = map[string]string{"wider than a phone": wide, "too small to touch": short}
				}
				for what, script := range checks {
					var found []string
					if p.eval(script, &found); len(found) > 0 {
						t.Errorf("%s: %s", what, strings.Join(found, "\n"))
					}
				}
			})
		}
	}
}

func TestOperatorsScreensOnEveryDevice(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	for name, c := range w.operated(s) {
		for device, v := range map[string]view{"light": desktop, "dark": night, "phone": phone} {
			t.Run(name+" "+device, func(t *testing.T) {
				p := open(t, v, w.url+c[0])
				p.until(`document.documentElement.dataset.phase === 'live'`)
				p.see(c[1], c[2])
				checks := map[string]string{"names": unnamed, "contrast": pale}
				if device == "phone" {
					checks = map[string]string{"wider than a phone": wide, "too small to touch": short}
				}
				for what, script := range checks {
					var found []string
					if p.eval(script, &found); len(found) > 0 {
						t.Errorf("%s: %s", what, strings.Join(found, "\n"))
					}
				}
			})
		}
	}
}

func TestOperatorsScreens(t *testing.T) {
	t.Parallel()
	w := start(t, withFile)
	s := w.seedTrouble()
	folder := t.TempDir()
	if os.Getenv(updateScreens) != "" {
		folder = screenFolder
	}
	screens := w.operated(s)
	screens["cause"] = [3]string{"#/dead", ".causes", "growing"}
	screens["new item"] = [3]string{"#/work", ".work-table", "charge"}
	screens["new schedule"] = [3]string{"#/schedules", ".schedules", "nightly"}
	for _, c := range []struct {
		name, screen string
		view         view
	}{
		{"dead", "dead", desktop}, {"dead-phone", "dead", phone}, {"dead-cause", "cause", desktop}, {"dead-rejected", "original", desktop},
		{"types", "types", desktop}, {"type-circuit-dark", "circuit", night}, {"workers", "workers", desktop}, {"workers-phone", "workers", phone},
		{"schedules", "schedules", desktop}, {"new-item", "new item", desktop}, {"new-schedule", "new schedule", desktop}, {"schedule", "schedule", desktop}, {"events", "events", view{width: 1200, height: 640}}, {"events-dark", "events", view{width: 1200, height: 640, dark: true}}, {"events-phone", "events", phone}, {"type", "type", desktop},
	} {
		if c.name == "type" && os.Getenv(updateScreens) != "" {
			w.mail(90 * time.Second)
		}
		t.Run(c.name, func(t *testing.T) {
			want := screens[c.screen]
			p := open(t, c.view, w.url+want[0])
			p.until(`document.documentElement.dataset.phase === 'live'`)
			p.see(want[1], want[2])
			switch c.screen {
			case "cause":
				p.cause()
			case "new item":
				p.newItem()
			case "new schedule":
				p.newSchedule()
			case "schedule":
				w.fireTwice("nightly")
				p.see(".panel-runs .work-table", "queued")
			}
			file := filepath.Join(folder, c.name+".png")
			p.shot(file)
			st, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if st.Size() > maxScreen || st.Size() < 10<<10 {
				t.Errorf("%s has %d bytes", file, st.Size())
			}
		})
	}
}
