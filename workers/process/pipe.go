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

// reportPipe is the descriptor's two ends and the goroutine that reads.
type reportPipe struct {
	r    *reporter
	read *os.File
	ours *os.File // the writing end, until the child has it
	done chan struct{}

	closing atomic.Bool   // the child has exited; then delay is valid
	delay   time.Duration // how long a read may take from then on
	left    int           // bytes that are still read then; the reader's own
}

// openReport gives the command its report descriptor. Where a child can't
// inherit one, it gets none, and nothing is ever reported.
func openReport(ctx context.Context, cmd *exec.Cmd, item *workers.RawItem) (*reportPipe, error) {
	p := &reportPipe{r: &reporter{ctx: ctx, item: item}, done: make(chan struct{})}
	if runtime.GOOS == "windows" {
		close(p.done)
		return p, nil
	}
	var err error
	if p.read, p.ours, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("open the report descriptor: %w", err)
	}
	cmd.ExtraFiles = []*os.File{p.ours}
	cmd.Env = append(cmd.Env, fmt.Sprintf("WORK_REPORT_FD=%d", reportFD))
	p.left = MaxReportLine
	go func() {
		defer close(p.done)
		p.r.read(p.read, p.before)
	}()
	return p, nil
}

// before is asked before each read. Once the child has exited, what it has
// left in the pipe is read; a descendant that still has the pipe may neither
// keep it open nor go on writing for long.
func (p *reportPipe) before(got int) bool {
	if !p.closing.Load() {
		return true
	}
	p.left -= got
	_ = p.read.SetReadDeadline(time.Now().Add(p.delay)) // a pipe takes one
	return p.left > 0
}

// started closes this process's copy of the child's end.
func (p *reportPipe) started() {
	if p.ours != nil {
		_ = p.ours.Close() // nothing was written to it
		p.ours = nil
	}
}

// finish returns once everything that the child has said is taken in: at the
// end of the pipe, or after the delay if a descendant keeps it open. What the
// child said last may be a checkpoint, which takes as long as it takes; it ends
// with the run's context.
func (p *reportPipe) finish(delay time.Duration) {
	p.started()
	if p.read == nil {
		return
	}
	p.delay = delay
	p.closing.Store(true)
	_ = p.read.SetReadDeadline(time.Now().Add(delay)) // for a read that is under way
	<-p.done
	_ = p.read.Close() // it was only read
}
