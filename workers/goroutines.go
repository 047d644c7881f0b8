package workers

import (
	"context"
	"sync/atomic"
)

// maxIdle bounds the goroutines that wait for another handler. Each has a stack of some 8 KiB.
const maxIdle = 256

// goroutines run handlers, each of them one after the other: its stack has grown already.
// Growing a new one each time took a thirtieth of the CPU time of items that do nothing. The
// namespaces of a worker share them.
type goroutines struct {
	next chan execution // for one that waits
	idle atomic.Int32   // those that wait, or are about to
	done context.Context
	end  context.CancelFunc // from then on none waits
}

// execution is the run of a handler.
type execution struct {
	w    *Worker
	ctx  context.Context
	r    *run
	item *RawItem
}

func newGoroutines() *goroutines {
	g := &goroutines{next: make(chan execution)}
	g.done, g.end = context.WithCancel(context.Background())
	return g
}

// run has a goroutine run a handler. It does not wait.
func (g *goroutines) run(e execution) {
	select {
	case g.next <- e:
	default:
		go g.runEach(e)
	}
}

// runEach runs a handler, then whatever comes next.
func (g *goroutines) runEach(e execution) {
	for ok := true; ok; e, ok = g.await() {
		e.w.execute(e.ctx, e.r, e.item)
	}
}

// await waits for another handler; false: the goroutine is to end.
func (g *goroutines) await() (e execution, ok bool) {
	defer g.idle.Add(-1)
	if g.idle.Add(1) > maxIdle {
		return e, false
	}
	select {
	case e = <-g.next:
		return e, true
	case <-g.done.Done():
		return e, false
	}
}
