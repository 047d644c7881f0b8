package workers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The checks of this file compare what the process uses with a threshold. They
// panic if the threshold is out of bounds, as that is a mistake in the program.

// MemoryBelow is a check that fails while the memory of this process, as its
// heartbeats tell it but without child processes, is share (above 0, up to 1) of
// its limit or more. The limit is that of its cgroup; without one, GOMEMLIMIT;
// without that, the machine's RAM. Where the system tells neither (it is not
// Linux), set GOMEMLIMIT: until then the check fails and says so.
func MemoryBelow(share float64) Check {
	limit := func() (uint64, string, error) { return memoryLimit(os.DirFS("/"), debug.SetMemoryLimit(-1)) }
	return memoryBelow(share, processMemory, limit)
}

func memoryBelow(share float64, used func() uint64, limit func() (bytes uint64, of string, err error)) Check {
	mustShare("MemoryBelow", share)
	return func(context.Context) error {
		most, of, err := limit()
		if err != nil {
			return err
		}
		if now := used(); float64(now) >= share*float64(most) {
			return fmt.Errorf("memory is %d MiB of %d MiB (%s): it must be below %s", now>>20, most>>20, of, percent(share))
		}
		return nil
	}
}

// CPUBelow is a check that fails while this process, without child processes,
// has used share (above 0, up to 1) or more of the CPUs that it may use: the
// lower of GOMAXPROCS and its cgroup's quota. What counts is the mean since the
// last call that is over or longer ago; until there is one the check passes.
func CPUBelow(share float64, over time.Duration) Check {
	cpus := func() float64 { return usableCPUs(os.DirFS("/"), runtime.GOMAXPROCS(0)) }
	return cpuBelow(share, over, time.Now, processCPU, cpus)
}

func cpuBelow(share float64, over time.Duration, now func() time.Time, used func() time.Duration, cpus func() float64) Check {
	mustShare("CPUBelow", share)
	if over <= 0 {
		panic(fmt.Sprintf("workers: CPUBelow over %s: it must be above 0", over))
	}
	w := cpuWindow{over: over}
	return func(context.Context) error {
		mean, span, ok := w.add(now(), used())
		if mean /= cpus(); ok && mean >= share {
			return fmt.Errorf("CPU is %s over %s: it must be below %s", percent(mean), span.Round(time.Second/10), percent(share))
		}
		return nil
	}
}

// cpuWindow measures the CPU that is used over a time.
type cpuWindow struct {
	over time.Duration

	mu   sync.Mutex // guards what follows: several workers may share a check
	seen []cpuSeen  // oldest first; at most windowParts+2
}

// cpuSeen is the CPU that had been used at a time.
type cpuSeen struct {
	at   time.Time
	used time.Duration
}

// windowParts bounds the samples of a window: they are over/windowParts apart, or more.
const windowParts = 32

// add returns the mean number of CPUs in use since the youngest sample that is
// old enough, and how old that is; not ok: there is none yet.
func (w *cpuWindow) add(at time.Time, used time.Duration) (mean float64, span time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	young := slices.IndexFunc(w.seen, func(s cpuSeen) bool { return at.Sub(s.at) < w.over })
	if young < 0 {
		young = len(w.seen)
	}
	if young > 0 {
		w.seen = slices.Delete(w.seen, 0, young-1)
		base := w.seen[0]
		span, ok = at.Sub(base.at), true
		mean = float64(used-base.used) / float64(span)
	}
	if n := len(w.seen); n == 0 || at.Sub(w.seen[n-1].at) >= w.over/windowParts {
		w.seen = append(w.seen, cpuSeen{at, used})
	}
	return mean, span, ok
}

// ConnectionsBelow is a check that fails while share (above 0, up to 1) or more
// of a pool's connections are in use. stats tells how many are, and how many may
// be; without a bound (0 or less) the check passes. For a *sql.DB:
//
//	func() (inUse, max int) { s := db.Stats(); return s.InUse, s.MaxOpenConnections }
func ConnectionsBelow(share float64, stats func() (inUse, max int)) Check {
	mustShare("ConnectionsBelow", share)
	if stats == nil {
		panic("workers: ConnectionsBelow: stats is nil")
	}
	return func(context.Context) error {
		if inUse, most := stats(); most > 0 && float64(inUse) >= share*float64(most) {
			return fmt.Errorf("%d of %d connections are in use: it must be below %s", inUse, most, percent(share))
		}
		return nil
	}
}

// ThreadsBelow is a check that fails while this process has n OS threads or
// more; n is 1 or more. Where the system does not tell them (it is not Linux), the
// threads that the Go runtime has created count, ended ones too.
func ThreadsBelow(n int) Check {
	return threadsBelow(n, func() int { return threads(os.DirFS("/"), pprof.Lookup("threadcreate").Count) })
}

func threadsBelow(n int, count func() int) Check {
	if n < 1 {
		panic(fmt.Sprintf("workers: ThreadsBelow(%d): it must be 1 or more", n))
	}
	return func(context.Context) error {
		if now := count(); now >= n {
			return fmt.Errorf("there are %d OS threads: it must be below %d", now, n)
		}
		return nil
	}
}

func mustShare(check string, share float64) {
	if !(share > 0 && share <= 1) { // NaN too
		panic(fmt.Sprintf("workers: %s(%v): the share must be above 0, and at most 1", check, share))
	}
}

// percent writes a share with at most one decimal.
func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1000)/10, 'f', -1, 64) + "%"
}

// memoryLimit returns the memory that this process may hold, and whose limit that
// is. root is the system's root folder, soft the Go runtime's limit.
func memoryLimit(root fs.FS, soft int64) (bytes uint64, of string, err error) {
	ram := kilobytes(root, "proc/meminfo", "MemTotal:")
	limit := uint64(math.MaxUint64)
	for _, dir := range cgroupFolders(root, "memory") {
		for _, name := range []string{"memory.max", "memory.limit_in_bytes"} { // of version 2 and 1
			if n, err := strconv.ParseUint(firstLine(root, path.Join(dir, name)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
	}
	switch {
	case limit < math.MaxInt64/2 && (ram == 0 || limit < ram): // version 1 writes none as a huge number
		return limit, "the cgroup's limit", nil
	case soft > 0 && soft < math.MaxInt64:
		return uint64(soft), "GOMEMLIMIT", nil
	case ram > 0:
		return ram, "the machine's RAM", nil
	}
	return 0, "", errors.New("the memory that this process may use is not known here: set GOMEMLIMIT")
}

// usableCPUs returns how many CPUs this process may use; procs is GOMAXPROCS.
func usableCPUs(root fs.FS, procs int) float64 {
	cpus := float64(procs)
	for _, dir := range cgroupFolders(root, "cpu") {
		quota, period, _ := strings.Cut(firstLine(root, path.Join(dir, "cpu.max")), " ")
		if quota == "" { // version 1
			quota, period = firstLine(root, path.Join(dir, "cpu.cfs_quota_us")), firstLine(root, path.Join(dir, "cpu.cfs_period_us"))
		}
		q, errQ := strconv.ParseFloat(quota, 64) // "max" or -1: none
		p, errP := strconv.ParseFloat(period, 64)
		if errQ == nil && errP == nil && q > 0 && p > 0 {
			cpus = min(cpus, q/p)
		}
	}
	return cpus
}

// cgroupFolders are the folders of this process's cgroup for a controller and of
// all that it is in, of version 2 and 1; some may not exist.
func cgroupFolders(root fs.FS, controller string) (dirs []string) {
	data, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(data)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top := "sys/fs/cgroup"
		if parts[1] != "" {
			if !slices.Contains(strings.Split(parts[1], ","), controller) {
				continue
			}
			top = path.Join(top, controller)
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			dirs = append(dirs, path.Join(top, at))
			if at == "/" {
				break
			}
		}
	}
	return dirs
}

// threads counts the process's OS threads, by other where the system does not tell them.
func threads(root fs.FS, other func() int) int {
	if n, err := strconv.Atoi(field(root, "proc/self/status", "Threads:")); err == nil {
		return n
	}
	return other()
}

// kilobytes returns a size in kB as bytes, 0 if it is not there.
func kilobytes(root fs.FS, file, name string) uint64 {
	n, _ := strconv.ParseUint(field(root, file, name), 10, 54)
	return n << 10
}

// field returns the first word behind a name that begins a line, empty if there is none.
func field(root fs.FS, file, name string) string {
	data, _ := fs.ReadFile(root, file)
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			return words[1]
		}
	}
	return ""
}

func firstLine(root fs.FS, file string) string {
	data, _ := fs.ReadFile(root, file)
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(line)
}
