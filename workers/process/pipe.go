package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/streamwright/streamwright/workers"
)

// reportFD is the descriptor on which a child says what its exit code can't.
const reportFD = 3

// pipe is a pipe that a child writes to, and the goroutine that reads.
type pipe struct {
	read *os.File
	ours *os.File // the writing end, until the child has it
	done chan struct{}

	closing atomic.Bool   // the child has exited; then delay is valid
	delay   time.Duration // how long the reads from then on may take, in all
	left    int           // bytes that are still read then; the reader's own
	spent   time.Duration // by these reads; the reader's own
}

// openPipe makes a pipe, whose bytes take gets; end is called behind the last. Of what is left
// when the child has exited, at most left bytes are read.
func openPipe(left int, take func([]byte), end func()) (*pipe, error) {
	p := &pipe{done: make(chan struct{}), left: left}
	var err error
	if p.read, p.ours, err = os.Pipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		defer end()
		buf := make([]byte, 32<<10)
		var took time.Duration
		for got := 0; p.before(got, took); {
			last, began := p.closing.Load(), time.Now()
			n, err := p.read.Read(buf)
			if took = 0; last {
				took = time.Since(began)
			}
			take(buf[:n])
			if got = n; err != nil {
				return
			}
		}
	}()
	return p, nil
}

// before is asked before each read. Once the child has exited, what it has
// left in the pipe is read; a descendant that still has the pipe may neither
// keep it open nor go on writing for long.
func (p *pipe) before(got int, took time.Duration) bool {
	if !p.closing.Load() {
		return true
	}
	p.left -= got
	p.spent += took
	_ = p.read.SetReadDeadline(time.Now().Add(p.delay - p.spent)) // a pipe takes one
	return p.left > 0 && p.spent < p.delay
}

// started closes this process's copy of the child's end.
func (p *pipe) started() {
	if p != nil && p.ours != nil {
		_ = p.ours.Close() // nothing was written to it
		p.ours = nil
	}
}

// finish returns once everything that the child has written is taken in: at the
// end of the pipe, or after the delay if a descendant keeps it open. What the
// child wrote last may be a checkpoint, or output, which takes as long as it takes; it ends
// with the run's context.
func (p *pipe) finish(delay time.Duration) {
	if p == nil {
		return
	}
	p.started()
	p.delay = delay
	p.closing.Store(true)
	_ = p.read.SetReadDeadline(time.Now().Add(delay)) // for a read that is under way
	<-p.done
	_ = p.read.Close() // it was only read
}

// openReport gives the command its report descriptor. Where a child can't
// inherit one, it gets none, and nothing is ever reported.
func openReport(ctx context.Context, cmd *exec.Cmd, item *workers.RawItem) (*reporter, *pipe, error) {
	r := &reporter{ctx: ctx, item: item}
	if runtime.GOOS == "windows" {
		return r, nil, nil
	}
	p, err := openPipe(MaxReportLine, r.take, r.line) // the last line may have no end
	if err != nil {
		return nil, nil, fmt.Errorf("open the report descriptor: %w", err)
	}
	cmd.ExtraFiles = []*os.File{p.ours}
	cmd.Env = append(cmd.Env, fmt.Sprintf("WORK_REPORT_FD=%d", reportFD))
	return r, p, nil
}
