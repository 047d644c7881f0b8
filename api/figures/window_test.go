package figures

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// What happened counts in each window that it lies in, and in none once it is older.
func TestWindow(t *testing.T) {
	w := newWindow(24*time.Hour, time.Minute)
	for i := range 24 * 60 * 2 { // two days: one a minute
		w.add(start.Add(time.Duration(i-24*60*2+1) * time.Minute))
	}
	w.add(start.Add(-30 * 24 * time.Hour)) // late: it is nowhere
	for over, want := range map[time.Duration]int64{time.Minute: 1, time.Hour: 60, 24 * time.Hour: 24 * 60} {
		if got := w.since(start, over); got != want {
			t.Errorf("in %v there were %d, want %d", over, got, want)
		}
	}
	if got := w.since(start.Add(59*time.Minute), time.Hour); got != 1 {
		t.Errorf("59 minutes later %d are in the hour", got)
	}
	if got := w.since(start.Add(25*time.Hour), 24*time.Hour); got != 0 {
		t.Errorf("a day later there are %d", got)
	}
}

func TestDeathsOfTheLastTenMinutes(t *testing.T) {
	f := newRig()
	f.Feed(batch(start.Add(-11*time.Minute), &events.Dead{}))
	f.Feed(batch(start.Add(-9*time.Minute), &events.Dead{}, &events.Dead{}))
	f.Feed(batch(start, &events.Dead{}, &events.Completed{}))
	for after, want := range map[time.Duration]int64{0: 3, 2 * time.Minute: 1, 11 * time.Minute: 0} {
		if got := f.Died("email", start.Add(after)); got != want {
			t.Errorf("after %v, %d have died, want %d", after, got, want)
		}
	}
	if got := f.Died("other", start); got != 0 {
		t.Errorf("%d of a type that has nothing", got)
	}
}

func TestRecoveriesInWindows(t *testing.T) {
	f := newRig()
	for _, ago := range []time.Duration{0, time.Minute, 2 * time.Hour, 23 * time.Hour, 30 * time.Hour} {
		f.Repaired("email", wire.RecoveryTimeout, start.Add(-ago))
	}
	f.Repaired("", wire.RecoveryOwnership, start.Add(-2*time.Hour))
	all, hour, day := f.Recoveries(start)
	if all[wire.RecoveryTimeout] != 5 || hour[wire.RecoveryTimeout] != 2 || day[wire.RecoveryTimeout] != 4 {
		t.Errorf("time-outs: %d, in an hour %d, in a day %d", all[wire.RecoveryTimeout], hour[wire.RecoveryTimeout], day[wire.RecoveryTimeout])
	}
	if _, ok := hour[wire.RecoveryOwnership]; ok || day[wire.RecoveryOwnership] != 1 {
		t.Errorf("ownerships: in an hour %v, in a day %v", hour, day)
	}
}
