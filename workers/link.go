package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/standing"
	"github.com/streamwright/streamwright/wire"
)

// link is the connection to the engine. Guarded by Worker.mu.
type link struct {
	w         *Worker
	connected bool
	asking    context.Context // ends when what was asked will not be answered
	unheard   context.CancelCauseFunc
	epoch     int       // counts connections
	lost      time.Time // when the last connection was lost
}

// What ends the requests that are outstanding, whose replies may never come.
var (
	errDisconnected = errors.New("the connection was lost")
	errNewOwner     = errors.New("another engine has become the owner")
)

// request asks the engine and returns the reply's body. An error reply is an
// *events.Error. It ends early when the connection is lost, or another engine becomes
// the owner.
func (l *link) request(ctx context.Context, endpoint string, body []byte, limit time.Duration) ([]byte, error) {
	l.w.mu.Lock()
	asking, up := l.asking, l.connected
	l.w.mu.Unlock()
	if !up {
		return nil, errDisconnected
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(asking, cancel)()
	msg, err := l.w.nc.RequestWithContext(ctx, l.w.cfg.Names.API(endpoint), body)
	if err != nil {
		return nil, fmt.Errorf("ask the engine to %s: %w", endpoint, cmp.Or(context.Cause(asking), err))
	}
	if len(msg.Data) > 0 && msg.Data[0] == '{' {
		var e wire.ErrorReply
		if json.Unmarshal(msg.Data, &e) == nil && e.Error != nil {
			return nil, e.Error.Err()
		}
	}
	return msg.Data, nil
}

// call is request with JSON at both ends.
func (l *link) call(ctx context.Context, endpoint string, req, reply any, limit time.Duration) error {
	body, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode %s: %w", endpoint, err)
	}
	answer, err := l.request(ctx, endpoint, body, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("decode the engine's answer to %s: %w", endpoint, err)
	}
	return nil
}

// transient reports whether asking again may help: no answer, or one that says
// so.
func transient(err error) bool {
	var e *events.Error
	return !errors.As(err, &e) || standing.Transient(e.Code)
}

// watch follows the connection's status.
func (l *link) watch(status chan nats.Status) {
	defer l.w.loops.Done()
	defer l.w.nc.RemoveStatusListener(status)
	for {
		select {
		case <-l.w.life.Done():
			return
		case s, ok := <-status:
			if !ok {
				return
			}
			l.set(s == nats.CONNECTED)
			if s == nats.CLOSED {
				l.connectionClosed()
				return
			}
		}
	}
}

// set takes note of the connection's state. A new connection is a new
// epoch: requests of the one before are void.
func (l *link) set(up bool) {
	l.w.mu.Lock()
	defer l.w.unlock()
	if up == l.connected {
		return
	}
	l.connected = up
	l.w.reports.setUp(up)
	if up {
		l.asking, l.unheard = context.WithCancelCause(context.Background())
		l.w.session.wake()
		l.w.reports.retryNow()
		return
	}
	l.epoch++
	l.lost = time.Now()
	l.w.session.Registered = false
	l.unheard(errDisconnected)
	l.w.clock.dueBy(l.lost) // from now on leases run out
}

// newOwner ends the outstanding requests, to be made again: who was asked may be no more.
// REQUIRES: mu.
func (l *link) newOwner() {
	if l.connected {
		l.unheard(errNewOwner)
		l.asking, l.unheard = context.WithCancelCause(context.Background())
	}
}

// connectionClosed ends everything: without a connection no lease can be kept.
func (l *link) connectionClosed() {
	l.w.mu.Lock()
	defer l.w.unlock()
	for _, r := range l.w.table.runs {
		l.w.endRun(r, ErrLeaseLost, true)
	}
	close(l.w.closed)
}
