package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
)

// ticks are those that have made an item, in no order. It fails when one has
// made two.
func ticks(t *testing.T, c *streamwright.Client, name string) (made []time.Time) {
	t.Helper()
	byTick := map[string]int{}
	page, err := c.List(testContext(t), streamwright.Filter{Type: "clean", Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range page.Items {
		if it.Provenance == (events.Provenance{Source: "schedule", Trigger: name}) {
			byTick[it.Labels[events.LabelTick]]++
		}
	}
	for tick, n := range byTick {
		at, err := time.Parse(time.RFC3339Nano, tick)
		if err != nil || n != 1 {
			t.Fatalf("the tick %q has %d items (%v)", tick, n, err)
		}
		made = append(made, at)
	}
	return made
}

func untilTicks(t *testing.T, c *streamwright.Client, name string, n int) []time.Time {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); ; {
		made := ticks(t, c, name)
		if len(made) >= n {
			return made
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d ticks, want %d", len(made), n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A schedule of every second ticks each second exactly once, over a restart.
func TestEverySecondOverARestart(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := t.TempDir()
	e := mustStart(t, quiet(dir))
	c, err := e.Client(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	set, err := c.Schedules().Set(testContext(t), streamwright.Schedule{Name: "sweep", Type: "clean", Every: time.Second, Missed: "all", Params: map[string]int{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	before := untilTicks(t, c, "sweep", 2)
	c.Close()
	stopEngine(t, e)
	time.Sleep(1500 * time.Millisecond) // at least one tick is missed

	e = mustStart(t, quiet(dir))
	c = mustClient(t, e)
	made := untilTicks(t, c, "sweep", len(before)+4)
	slices.SortFunc(made, time.Time.Compare)
	for i, at := range made {
		if want := set.Anchor.Add(time.Duration(i+1) * time.Second); !at.Equal(want) {
			t.Fatalf("tick %d of %d is %s, want %s", i, len(made), at, want)
		}
	}
	list, err := c.Schedules().List(testContext(t))
	if err != nil || len(list) != 1 || list[0].LastState != events.StateQueued {
		t.Errorf("%+v %v", list, err)
	}
	if err := c.Schedules().Remove(testContext(t), "sweep"); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Engine().Verify(testContext(t), nil); err != nil || !p.Equal {
		t.Errorf("%+v %v", p, err)
	}
}

// The file's schedule is recorded, followed as it changes, and removed with it.
func TestTheFileOwnsASchedule(t *testing.T) {
	dir := t.TempDir()
	with := func(s ...config.Schedule) Options {
		o := quiet(dir)
		o.Config.Schedules = map[string]config.Schedule{}
		for _, one := range s {
			o.Config.Schedules["sweep"] = one
		}
		return o
	}
	run := func(o Options, fn func(c *streamwright.Client, list []streamwright.ScheduleInfo)) {
		t.Helper()
		e := mustStart(t, o)
		defer stopEngine(t, e)
		c, err := e.Client(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		list, err := c.Schedules().List(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		fn(c, list)
	}
	var first streamwright.ScheduleInfo
	run(with(config.Schedule{Type: "clean", Every: time.Hour}), func(c *streamwright.Client, list []streamwright.ScheduleInfo) {
		if len(list) != 1 || list[0].Source != "file" || list[0].Every != events.Millis(3_600_000) || list[0].Next.IsZero() {
			t.Fatalf("%+v", list)
		}
		first = list[0]
		if _, err := c.Schedules().Pause(testContext(t), "sweep"); events.CodeOf(err) != events.CodeSetInFile {
			t.Errorf("%v", err)
		}
	})
	run(with(config.Schedule{Type: "clean", Every: time.Hour, Tenant: "acme"}), func(_ *streamwright.Client, list []streamwright.ScheduleInfo) {
		if len(list) != 1 || list[0].Tenant != "acme" || !list[0].Next.Equal(first.Next) {
			t.Errorf("%+v, before %+v", list, first)
		}
	})
	run(with(), func(_ *streamwright.Client, list []streamwright.ScheduleInfo) {
		if len(list) != 0 {
			t.Errorf("%+v", list)
		}
	})
}
