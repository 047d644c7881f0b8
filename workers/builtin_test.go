package workers

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// files is a root folder with these files.
func files(list map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range list {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// says fails unless err reads want; empty: there is none.
func says(t *testing.T, err error, want string) {
	t.Helper()
	if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMemoryBelow(t *testing.T) {
	for _, c := range []struct {
		used uint64
		err  error
		want string
	}{
		{899 << 20, nil, ""},
		{900 << 20, nil, "memory is 900 MiB of 1000 MiB (GOMEMLIMIT): it must be below 90%"},
		{2000 << 20, nil, "memory is 2000 MiB of 1000 MiB (GOMEMLIMIT): it must be below 90%"},
		{0, errors.New("not known"), "not known"},
	} {
		check := memoryBelow(0.9, func() uint64 { return c.used }, func() (uint64, string, error) { return 1000 << 20, "GOMEMLIMIT", c.err })
		says(t, check(t.Context()), c.want)
	}
}

func TestMemoryLimit(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files map[string]string
		soft  int64
		limit uint64
		of    string
	}{
		"the own cgroup":     {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "proc/meminfo": "MemTotal:  64 kB\n"}, 500, 1000, "the cgroup's limit"},
		"one above":          {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "900\n"}, none, 900, "the cgroup's limit"},
		"the lowest":         {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "2000\n", "sys/fs/cgroup/memory.max": "800\n"}, none, 800, "the cgroup's limit"},
		"another's":          {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/b/memory.max": "800\n"}, 500, 500, "GOMEMLIMIT"},
		"version 1":          {map[string]string{"proc/self/cgroup": "7:cpu,cpuacct:/x\n4:memory:/a\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "700\n"}, none, 700, "the cgroup's limit"},
		"version 1, none":    {map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 500, 500, "GOMEMLIMIT"},
		"higher than RAM":    {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "65537\n", "proc/meminfo": "MemFree: 1 kB\nMemTotal:  64 kB\n"}, none, 65536, "the machine's RAM"},
		"GOMEMLIMIT, no RAM": {nil, 500, 500, "GOMEMLIMIT"},
		"GOMEMLIMIT and RAM": {map[string]string{"proc/meminfo": "MemTotal:  64 kB\n"}, 500, 500, "GOMEMLIMIT"},
	} {
		if limit, of, err := memoryLimit(files(c.files), c.soft); limit != c.limit || of != c.of || err != nil {
			t.Errorf("%s: got %d, %q, %v", name, limit, of, err)
		}
	}
	if _, _, err := memoryLimit(files(nil), none); err == nil || !strings.Contains(err.Error(), "set GOMEMLIMIT") {
		t.Errorf("nothing is known: %v", err)
	}
}

func TestCPUBelow(t *testing.T) {
	var now time.Time
	var used time.Duration
	check := cpuBelow(0.8, 10*time.Second, func() time.Time { return now }, func() time.Duration { return used }, func() float64 { return 2 })
	for i, step := range []struct {
		span, used time.Duration
		want       string
	}{
		{0, time.Hour, ""}, // what was used before does not count
		{5 * time.Second, 10 * time.Second, ""},
		{5 * time.Second, 10 * time.Second, "CPU is 100% over 10s: it must be below 80%"},
		{5 * time.Second, 6 * time.Second, "CPU is 80% over 10s: it must be below 80%"},
		{5 * time.Second, 6 * time.Second, ""},
		{time.Minute, 108 * time.Second, "CPU is 90% over 1m0s: it must be below 80%"}, // no call for longer
		{time.Minute, 0, ""},
	} {
		now, used = now.Add(step.span), used+step.used
		if err := check(t.Context()); err != nil || step.want != "" {
			says(t, err, step.want)
			if t.Failed() {
				t.Fatalf("at step %d", i)
			}
		}
	}
}

// However often a window is looked at, it keeps little, and covers its time.
func TestCPUWindowIsBounded(t *testing.T) {
	w := cpuWindow{over: 10 * time.Second}
	var now time.Time
	for i := range 100_000 {
		now = now.Add(time.Millisecond)
		_, span, ok := w.add(now, 0)
		if ok != (i >= 10_000) || ok && (span < w.over || span > w.over+w.over/windowParts+time.Millisecond) || len(w.seen) > windowParts+2 {
			t.Fatalf("call %d: %v, %s, %d samples", i, ok, span, len(w.seen))
		}
	}
}

func TestUsableCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64
	}{
		"no cgroup":       {nil, 4},
		"no quota":        {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 4},
		"half a CPU":      {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}, 0.5},
		"one above":       {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5},
		"more than procs": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "900000 100000\n"}, 4},
		"version 1":       {map[string]string{"proc/self/cgroup": "7:cpu,cpuacct:/a\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n"}, 2},
		"version 1, none": {map[string]string{"proc/self/cgroup": "7:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 4},
	} {
		if got := usableCPUs(files(c.files), 4); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestConnectionsBelow(t *testing.T) {
	for _, c := range []struct {
		inUse, max int
		want       string
	}{
		{8, 10, ""},
		{9, 10, "9 of 10 connections are in use: it must be below 90%"},
		{10, 10, "10 of 10 connections are in use: it must be below 90%"},
		{500, 0, ""},
	} {
		says(t, ConnectionsBelow(0.9, func() (int, int) { return c.inUse, c.max })(t.Context()), c.want)
	}
}

func TestThreadsBelow(t *testing.T) {
	says(t, threadsBelow(10, func() int { return 9 })(t.Context()), "")
	says(t, threadsBelow(10, func() int { return 10 })(t.Context()), "there are 10 OS threads: it must be below 10")
	other := func() int { return 7 }
	if n := threads(files(map[string]string{"proc/self/status": "Name:\tThreads: 3\nThreads:\t12\n"}), other); n != 12 {
		t.Errorf("got %d threads", n)
	}
	if n := threads(files(nil), other); n != 7 {
		t.Errorf("got %d threads", n)
	}
}

func TestBadThresholdsPanic(t *testing.T) {
	stats := func() (int, int) { return 0, 0 }
	for want, make := range map[string]func() Check{
		"MemoryBelow(0)":             func() Check { return MemoryBelow(0) },
		"MemoryBelow(85)":            func() Check { return MemoryBelow(85) },
		"MemoryBelow(NaN)":           func() Check { return MemoryBelow(math.NaN()) },
		"CPUBelow(-1)":               func() Check { return CPUBelow(-1, time.Second) },
		"CPUBelow over 0s":           func() Check { return CPUBelow(1, 0) },
		"ConnectionsBelow(1.1)":      func() Check { return ConnectionsBelow(1.1, stats) },
		"ConnectionsBelow: stats is": func() Check { return ConnectionsBelow(1, nil) },
		"ThreadsBelow(0)":            func() Check { return ThreadsBelow(0) },
	} {
		func() {
			defer func() {
				if p := recover(); !strings.Contains(fmt.Sprint(p), "workers: "+want) {
					t.Errorf("%s: got %v", want, p)
				}
			}()
			make()
		}()
	}
}

// The checks read this system: what no process reaches passes, what each has fails.
func TestBuiltinsReadTheSystem(t *testing.T) {
	for name, c := range map[string]struct {
		check Check
		fails bool
	}{
		"no threads":  {ThreadsBelow(1), true},
		"any threads": {ThreadsBelow(1 << 30), false},
		"any CPU":     {CPUBelow(1, time.Hour), false},
	} {
		if err := c.check(t.Context()); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	check := MemoryBelow(1e-9)
	if err := check(t.Context()); err == nil {
		t.Error("no memory: it passes")
	}
	if cpus := usableCPUs(files(nil), 3); cpus != 3 {
		t.Errorf("got %v CPUs", cpus)
	}
}
