package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// counters is what processes have used since their start.
type counters struct {
	CPU     time.Duration
	Written int64 // bytes to disk, as the kernel accounts them: /proc/PID/io, write_bytes
}

func (c counters) plus(d counters) counters  { return counters{c.CPU + d.CPU, c.Written + d.Written} }
func (c counters) minus(d counters) counters { return counters{c.CPU - d.CPU, c.Written - d.Written} }

// tick is the unit of times in /proc: USER_HZ, which is 100 on all of Linux's
// 64-bit platforms.
const tick = 10 * time.Millisecond

// stat is a line of /proc/PID/stat.
type stat struct {
	parent      int
	own, reaped time.Duration // CPU of the process, and of its children that have ended
}

func readStat(pid int) (s stat, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// The name, in parentheses, may contain anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 15 {
		return s, fmt.Errorf("/proc/%d/stat is %q", pid, b)
	}
	n := make([]int64, 15)
	for i := range n {
		n[i], _ = strconv.ParseInt(f[i], 10, 64) // 0 for the state, which is a letter
	}
	return stat{parent: int(n[1]), own: time.Duration(n[11]+n[12]) * tick, reaped: time.Duration(n[13]+n[14]) * tick}, nil
}

// processes returns all that run now, by their id.
func processes() map[int]stat {
	all := map[int]stat{}
	entries, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, e := range entries {
		p, _ := strconv.Atoi(filepath.Base(e))
		if s, err := readStat(p); err == nil { // else it has ended
			all[p] = s
		}
	}
	return all
}

// family returns pid and all that stem from it.
func family(all map[int]stat, pid int) (pids []int) {
	for p := range all {
		for q := p; q > 0; q = all[q].parent {
			if q == pid {
				pids = append(pids, p)
				break
			}
		}
	}
	return pids
}

// readTree adds up a process and all that stem from it, those included that have ended
// and been reaped, whose figures the kernel adds to their parent's.
func readTree(pid int) (sum counters, err error) {
	all := processes()
	for _, p := range family(all, pid) {
		w, err := fields(fmt.Sprintf("/proc/%d/io", p), "write_bytes")
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended in between
		}
		if err != nil {
			return sum, err
		}
		sum = sum.plus(counters{all[p].own + all[p].reaped, w[0]})
	}
	return sum, nil
}

// resident is the memory of processes, without the pages of files: each one's own, and
// once what they share (PostgreSQL's buffers, which each backend maps).
func resident(all map[int]stat, pids ...int) int64 {
	var own, shared int64
	for _, pid := range pids {
		for _, p := range family(all, pid) {
			f, err := fields(fmt.Sprintf("/proc/%d/status", p), "RssAnon", "RssShmem")
			if err != nil {
				continue // it has ended
			}
			own += f[0] << 10
			shared = max(shared, f[1]<<10)
		}
	}
	return own + shared
}

// fields reads numbers from a file of /proc whose lines are "name: number".
func fields(file string, names ...string) ([]int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(names))
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		for i := range names {
			if f := strings.Fields(rest); names[i] == name && len(f) > 0 {
				out[i], _ = strconv.ParseInt(f[0], 10, 64)
			}
		}
	}
	return out, nil
}

// Usage is what a system has used in a measurement.
type Usage struct {
	Server, Client counters // Written of the server until it has been stopped in order
	ServerPeak     int64    // highest memory, sampled, in bytes
	ClientPeak     int64
	Others         float64 // share of the machine's CPU that others had, or that the host took
}

// meter measures servers and a client from its start to its stop.
type meter struct {
	servers []int
	client  int
	from    Usage
	machine machineTime
	quit    chan struct{}
	ended   chan struct{}
	peak    [2]int64 // owned by sample until ended
}

const sampleEvery = 250 * time.Millisecond

func startMeter(servers []int, client int) (*meter, error) {
	m := &meter{servers: servers, client: client, quit: make(chan struct{}), ended: make(chan struct{})}
	var err error
	if m.from, err = m.read(); err != nil {
		return nil, err
	}
	m.machine = readMachine()
	go m.sample()
	return m, nil
}

func (m *meter) read() (u Usage, err error) {
	for _, pid := range m.servers {
		c, e := readTree(pid)
		err = errors.Join(err, e)
		u.Server = u.Server.plus(c)
	}
	c, e := readTree(m.client)
	u.Client = c
	return u, errors.Join(err, e)
}

func (m *meter) sample() {
	defer close(m.ended)
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		all := processes()
		m.peak[0] = max(m.peak[0], resident(all, m.servers...))
		m.peak[1] = max(m.peak[1], resident(all, m.client))
		select {
		case <-m.quit:
			return
		case <-t.C:
		}
	}
}

// stop returns what was used since the start.
func (m *meter) stop() (Usage, error) {
	to, err := m.read()
	now := readMachine()
	close(m.quit)
	<-m.ended
	u := Usage{Server: to.Server.minus(m.from.Server), Client: to.Client.minus(m.from.Client), ServerPeak: m.peak[0], ClientPeak: m.peak[1]}
	all := now.all - m.machine.all
	if all > 0 {
		u.Others = max(0, float64(now.busy-m.machine.busy-u.Server.CPU-u.Client.CPU)/float64(all))
	}
	return u, err
}

// machineTime is the CPU time of the whole machine: busy includes what a hypervisor gave
// to others.
type machineTime struct{ all, busy time.Duration }

func readMachine() (m machineTime) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m
	}
	line, _, _ := strings.Cut(string(b), "\n")
	for i, f := range strings.Fields(line) {
		if i == 0 || i > 8 { // the name; guests' times, which user's contains
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		m.all += time.Duration(n) * tick
		if i != 4 && i != 5 { // idle, iowait
			m.busy += time.Duration(n) * tick
		}
	}
	return m
}
