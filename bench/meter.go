package main

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const mib = 1 << 20

// Use is the consumption of processes since their start.
type Use struct {
	CPU     time.Duration
	Written int64 // bytes to disk, as the kernel accounts them
	Peak    int64 // highest memory, sampled, in bytes
}

func (u Use) plus(v Use) Use  { return Use{u.CPU + v.CPU, u.Written + v.Written, max(u.Peak, v.Peak)} }
func (u Use) minus(v Use) Use { return Use{u.CPU - v.CPU, u.Written - v.Written, max(u.Peak, v.Peak)} }

// lifeOf returns what a process that has ended, and those that stemmed from it, had used.
func lifeOf(s *os.ProcessState) Use {
	const block = 512 // of Oublock, which is write_bytes of /proc/PID/io
	return Use{s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Oublock * block, 0}
}

// Usage is the consumption of a client and a server during a measurement.
type Usage struct {
	Client, Server Use
	Others         float64 // share of the machine's CPU that others had, or that the host took
}

// meter measures a client and a server from its start to its stop.
type meter struct {
	pids    [2]int // of both
	from    [2]Use
	machine procfs.CPUStat
	quit    chan struct{}
	ended   chan struct{}
	peak    [2]int64 // owned by sample until ended
}

// startMeter reads the counters, and begins to sample the memory, four times a second.
func startMeter(client, server int) (m *meter, err error) {
	m = &meter{pids: [2]int{client, server}, quit: make(chan struct{}), ended: make(chan struct{})}
	if m.from, m.machine, err = m.read(); err == nil {
		go m.sample()
	}
	return m, err
}

// stop returns what was used since the start.
func (m *meter) stop() (Usage, error) {
	to, machine, err := m.read()
	close(m.quit)
	<-m.ended
	u := Usage{Client: to[0].minus(m.from[0]), Server: to[1].minus(m.from[1])}
	u.Client.Peak, u.Server.Peak = m.peak[0], m.peak[1]
	allNow, busyNow := seconds(machine)
	if all, busy := seconds(m.machine); allNow > all {
		u.Others = max(0, (busyNow-busy-(u.Server.CPU+u.Client.CPU).Seconds())/(allNow-all))
	}
	return u, err
}

// seconds returns the time that the CPUs of a machine had, and that they were busy, or
// given to others by a hypervisor.
func seconds(c procfs.CPUStat) (all, busy float64) {
	busy = c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ + c.Steal
	return busy + c.Idle + c.Iowait, busy
}

// read returns the counters of both, and of the machine. Of processes that have ended and
// been reaped, the kernel adds them to their parent's.
func (m *meter) read() (used [2]Use, machine procfs.CPUStat, err error) {
	for i, family := range m.families() {
		for _, s := range family {
			p, err := procfs.NewProc(s.PID)
			if err != nil {
				continue // it has ended
			}
			io, err := p.IO()
			if errors.Is(err, os.ErrPermission) {
				return used, machine, err
			}
			ticks := int(s.UTime+s.STime) + s.CUTime + s.CSTime
			used[i] = used[i].plus(Use{time.Duration(ticks) * 10 * time.Millisecond, int64(io.WriteBytes), 0}) // USER_HZ is 100
		}
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return used, machine, err
	}
	s, err := proc.Stat()
	return used, s.CPUTotal, err
}

func (m *meter) sample() {
	defer close(m.ended)
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		for i, family := range m.families() {
			m.peak[i] = max(m.peak[i], resident(family))
		}
		select {
		case <-m.quit:
			return
		case <-t.C:
		}
	}
}

// families returns each process and all that stem from it and have not ended.
func (m *meter) families() (out [2][]procfs.ProcStat) {
	all := map[int]procfs.ProcStat{}
	procs, _ := procfs.AllProcs() // none: then it has no figures
	for _, p := range procs {
		if s, err := p.Stat(); err == nil { // else it has ended
			all[p.PID] = s
		}
	}
	for _, s := range all {
		for at := s.PID; at > 0; at = all[at].PPID {
			if i := slices.Index(m.pids[:], at); i >= 0 {
				out[i] = append(out[i], s)
				break
			}
		}
	}
	return out
}

// resident returns the memory of processes, without the pages of files: each one's own,
// and once what they share (PostgreSQL's buffers, which each backend maps).
func resident(family []procfs.ProcStat) int64 {
	var own, shared uint64
	for _, s := range family {
		p, err := procfs.NewProc(s.PID)
		if err != nil {
			continue // it has ended
		}
		if s, err := p.NewStatus(); err == nil {
			own, shared = own+s.RssAnon, max(shared, s.RssShmem)
		}
	}
	return int64(own + shared)
}
