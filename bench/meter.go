package measure

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// MiB is the number of bytes in one.
const MiB = 1 << 20

// SelfResident returns the resident memory of this process, in MiB.
func SelfResident() float64 {
	p, err := procfs.Self()
	if err != nil {
		return 0
	}
	s, err := p.Stat()
	if err != nil {
		return 0
	}
	return float64(s.ResidentMemory()) / MiB
}

// Counters is what processes have used since their start.
type Counters struct {
	CPU     time.Duration
	Written int64 // bytes to disk, as the kernel accounts them
}

// Plus returns the sum.
func (c Counters) Plus(d Counters) Counters { return Counters{c.CPU + d.CPU, c.Written + d.Written} }

// Minus returns the difference.
func (c Counters) Minus(d Counters) Counters { return Counters{c.CPU - d.CPU, c.Written - d.Written} }

// LifeOf returns what a process that has ended, and those that stemmed from it, had used.
func LifeOf(s *os.ProcessState) Counters {
	const block = 512 // of Oublock, which is write_bytes of /proc/PID/io
	return Counters{s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Oublock * block}
}

// Usage is what servers and a client have used in a measurement.
type Usage struct {
	Server, Client Counters // Written of the servers: see LifeOf
	ServerPeak     int64    // highest memory, sampled, in bytes
	ClientPeak     int64
	Others         float64 // share of the machine's CPU that others had, or that the host took
}

// Meter measures servers and a client from its start to its stop.
type Meter struct {
	pids    []int // of the client first, then of the servers
	from    Usage
	machine procfs.CPUStat
	quit    chan struct{}
	ended   chan struct{}
	peak    [2]int64 // owned by sample until ended
}

const sampleEvery = 250 * time.Millisecond

// StartMeter reads the counters, and begins to sample the memory. It also returns what the
// servers have used until then.
func StartMeter(client int, servers ...int) (m *Meter, before Counters, err error) {
	m = &Meter{pids: append([]int{client}, servers...), quit: make(chan struct{}), ended: make(chan struct{})}
	if m.from, m.machine, err = m.read(); err != nil {
		return nil, before, err
	}
	go m.sample()
	return m, m.from.Server, nil
}

// Stop returns what was used since Start.
func (m *Meter) Stop() (Usage, error) {
	to, now, err := m.read()
	close(m.quit)
	<-m.ended
	u := Usage{Server: to.Server.Minus(m.from.Server), Client: to.Client.Minus(m.from.Client), ServerPeak: m.peak[0], ClientPeak: m.peak[1]}
	allNow, busyNow := seconds(now)
	all, busy := seconds(m.machine)
	if allNow > all {
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

func (m *Meter) read() (u Usage, machine procfs.CPUStat, err error) {
	all := families(m.pids...)
	u.Client, err = used(all[0])
	for _, f := range all[1:] {
		c, e := used(f)
		u.Server, err = u.Server.Plus(c), errors.Join(err, e)
	}
	proc, e := procfs.NewDefaultFS()
	if err = errors.Join(err, e); err != nil {
		return u, machine, err
	}
	s, err := proc.Stat()
	return u, s.CPUTotal, err
}

func (m *Meter) sample() {
	defer close(m.ended)
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		all := families(m.pids...)
		m.peak[0] = max(m.peak[0], resident(slices.Concat(all[1:]...)))
		m.peak[1] = max(m.peak[1], resident(all[0]))
		select {
		case <-m.quit:
			return
		case <-t.C:
		}
	}
}

// families returns, for each process, itself and all that stem from it and have not ended.
func families(pids ...int) [][]procfs.ProcStat {
	all := map[int]procfs.ProcStat{}
	procs, _ := procfs.AllProcs() // none: then it has no figures
	for _, p := range procs {
		if s, err := p.Stat(); err == nil { // else it has ended
			all[p.PID] = s
		}
	}
	out := make([][]procfs.ProcStat, len(pids))
	for _, s := range all {
		for at := s.PID; at > 0; at = all[at].PPID {
			if i := slices.Index(pids, at); i >= 0 {
				out[i] = append(out[i], s)
				break
			}
		}
	}
	return out
}

// used adds up processes, those included that have ended and been reaped, whose figures
// the kernel adds to their parent's.
func used(family []procfs.ProcStat) (sum Counters, err error) {
	for _, s := range family {
		p, err := procfs.NewProc(s.PID)
		if err != nil {
			continue // it has ended
		}
		io, err := p.IO()
		if errors.Is(err, os.ErrPermission) {
			return sum, err
		}
		ticks := int(s.UTime+s.STime) + s.CUTime + s.CSTime
		sum = sum.Plus(Counters{time.Duration(ticks) * 10 * time.Millisecond, int64(io.WriteBytes)}) // USER_HZ is 100
	}
	return sum, nil
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
