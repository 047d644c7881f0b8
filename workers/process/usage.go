package process

import (
	"os"
	"sync"

	"github.com/streamwright/streamwright/workers"
)

// meter measures what a child and its descendants use.
type meter struct {
	mu   sync.Mutex    // guards what follows
	pid  int           // 0: it does not run
	used workers.Usage // Memory is as of the last look
}

func (m *meter) started(pid int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid = pid
}

// ended records the usage that the system reports for a child and the processes
// it has waited for.
func (m *meter) ended(s *os.ProcessState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid, m.used.Memory = 0, 0
	if s != nil {
		m.used.CPU = max(m.used.CPU, s.UserTime()+s.SystemTime())
	}
}

// read returns the usage. CPU does not shrink when a descendant is lost from sight.
func (m *meter) read() workers.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid != 0 {
		now := usageOf(m.pid)
		m.used = workers.Usage{Memory: now.Memory, CPU: max(m.used.CPU, now.CPU)}
	}
	return m.used
}
