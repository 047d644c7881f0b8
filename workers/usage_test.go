package workers

import (
	"testing"
	"time"
)

func TestOutsideIsCounted(t *testing.T) {
	var o outside
	one, two := Usage{Memory: 100, CPU: time.Second}, Usage{Memory: 10, CPU: time.Minute}
	endOne := o.measure(func() Usage { return one })
	endTwo := o.measure(func() Usage { return two })
	if got := o.total(); got != (Usage{110, 61 * time.Second}) {
		t.Errorf("two runs use %+v", got)
	}
	one = Usage{CPU: 3 * time.Second}
	endOne()
	endOne()
	if got := o.total(); got != (Usage{10, 63 * time.Second}) {
		t.Errorf("with one ended they use %+v", got)
	}
	endTwo()
	if got := o.total(); got != (Usage{0, 63 * time.Second}) {
		t.Errorf("with both ended they use %+v", got)
	}
	(&RawItem{}).Measure(func() Usage { t.Error("an item without a worker is measured"); return Usage{} })()
}

// The meter adds what runs use outside to what the process itself does, or tells
// that alone.
func TestMeter(t *testing.T) {
	var o outside
	now := time.Now()
	for _, alone := range []bool{false, true} {
		m := meter{childrenOnly: alone}
		m.read(now, o.total())
		var used Usage
		done := o.measure(func() Usage { return used })
		used = Usage{Memory: 1 << 40, CPU: 1000 * time.Hour}
		memory, cpu := m.read(now.Add(time.Hour), o.total())
		done()
		if memory < 1<<40 || cpu < 1 || alone && memory != 1<<40 {
			t.Errorf("children only %v: %d bytes, CPU %v", alone, memory, cpu)
		}
		if _, cpu = m.read(now.Add(2*time.Hour), o.total()); cpu > 0.5 {
			t.Errorf("children only %v: CPU %v after all have ended", alone, cpu)
		}
	}
}
