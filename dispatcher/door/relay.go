package door

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// reserved begins the reply subjects that the server makes for requests from other accounts,
// as the users' are. It refuses them in what a client publishes.
const reserved = "_R_."

// relay passes the stream's answers on to reply subjects that the server has made. The
// stream answers below the relay's inbox, where the rest of the subject is the one to pass
// the answer on to, so nothing is to be remembered.
type relay struct {
	inbox string // with a dot at its end
	sub   *nats.Subscription
	used  bool          // by a message; guarded by Door.mu
	gone  chan struct{} // closed when sub has given out its last message
}

func newRelay(nc *nats.Conn) (*relay, error) {
	r := &relay{inbox: nc.NewInbox() + ".", gone: make(chan struct{})}
	var err error
	r.sub, err = nc.Subscribe(r.inbox+">", func(m *nats.Msg) {
		// A publisher without an ack repeats.
		_ = nc.PublishMsg(&nats.Msg{Subject: m.Subject[len(r.inbox):], Header: m.Header, Data: m.Data})
	})
	if err != nil {
		return nil, fmt.Errorf("relay the intake's answers: %w", err)
	}
	r.sub.SetClosedHandler(func(string) { close(r.gone) })
	return r, nil
}

// reply returns the subject on which the stream is to answer a message with this reply
// subject. REQUIRES: Door.mu.
func (r *relay) reply(to string) string {
	if !strings.HasPrefix(to, reserved) {
		return to
	}
	r.used = true
	return r.inbox + to
}

// end returns when what the stream has answered is passed on.
func (r *relay) end() error {
	if err := r.sub.Drain(); err != nil {
		return err
	}
	select {
	case <-r.gone:
		return nil
	case <-time.After(endWithin):
		return context.DeadlineExceeded
	}
}
