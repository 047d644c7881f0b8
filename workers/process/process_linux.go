package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/streamwright/streamwright/workers"
)

// maxMeasured bounds the processes of one child that are looked at.
const maxMeasured = 256

// userTick is the unit of the times in /proc, the same on all of Go's systems.
const userTick = time.Second / 100

// usageOf returns what a process and its descendants use, as the system reports
// it: an ended process counts towards the one that has waited for it.
func usageOf(pid int) (sum workers.Usage) {
	pids := []int{pid}
	for i := 0; i < len(pids) && i < maxMeasured; i++ {
		u, ok := statOf(pids[i])
		if !ok {
			continue
		}
		sum.Memory += u.Memory
		sum.CPU += u.CPU
		pids = append(pids, childrenOf(pids[i])...)
	}
	return sum
}

// statOf reads one process: the pages that it has in memory, and the time that
// it and the processes it has waited for have used.
func statOf(pid int) (u workers.Usage, ok bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, false // it has just ended
	}
	// The program's name comes second, in brackets, and may have some of its own.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, utime, cstime, rss = 3, 14, 17, 24 // as proc(5) numbers them
	if len(fields) <= rss-state {
		return u, false
	}
	for _, f := range fields[utime-state : cstime-state+1] {
		ticks, _ := strconv.ParseInt(string(f), 10, 64)
		u.CPU += time.Duration(ticks) * userTick
	}
	pages, _ := strconv.ParseInt(string(fields[rss-state]), 10, 64)
	u.Memory = uint64(max(pages, 0)) * uint64(os.Getpagesize())
	return u, true
}

// childrenOf lists a process's children; none where the system does not tell them.
func childrenOf(pid int) (pids []int) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	for _, t := range tasks[:min(len(tasks), maxMeasured)] {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		for _, f := range bytes.Fields(data) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

const (
	wExited = 0x4
	wNoWait = 0x1000000
)

// dieWithParent has the kernel kill the child when the worker dies, even by
// SIGKILL.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
