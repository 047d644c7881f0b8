package streamwright

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// denials tells the tries under way what the server has refused for want of a
// permission. It does so beside the request, which it leaves without a reply:
// else a try would learn nothing and wait until its time is over.
type denials struct {
	then nats.ErrHandler // whoever else wants to know

	mu   sync.Mutex
	last *denial // that is still to come; guarded by mu
}

// denial is one that has come, once told is closed; until then its other
// fields are not to be read.
type denial struct {
	told    chan struct{}
	after   *denial // the next one
	publish bool    // else a subscription
	subject string
	err     error
}

// watchDenials takes over the error handler that is among the options.
func watchDenials(opts []nats.Option) *denials {
	r := &denials{last: &denial{told: make(chan struct{})}, then: printError}
	var o nats.Options
	for _, set := range opts {
		if set == nil || set(&o) != nil {
			return r // connecting will tell
		}
	}
	if o.AsyncErrorCB != nil {
		r.then = o.AsyncErrorCB
	}
	return r
}

// printError is what the NATS client does without a handler.
func printError(_ *nats.Conn, sub *nats.Subscription, err error) {
	if sub != nil {
		fmt.Fprintf(os.Stderr, "NATS: %v (subscription to %s)\n", err, sub.Subject)
		return
	}
	fmt.Fprintf(os.Stderr, "NATS: %v\n", err)
}

var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// handle is the connection's error handler.
func (r *denials) handle(nc *nats.Conn, sub *nats.Subscription, err error) {
	if m := violation.FindStringSubmatch(err.Error()); m != nil && errors.Is(err, nats.ErrPermissionViolation) {
		publish := strings.EqualFold(m[1], "publish")
		if publish || isInbox(nc, m[2]) { // a denied feed is told to its subscription alone
			r.tell(publish, m[2])
		}
	}
	r.then(nc, sub, err)
}

// isInbox reports whether a subject is one on which the connection hears replies.
func isInbox(nc *nats.Conn, subject string) bool {
	prefix := nats.InboxPrefix
	if nc != nil && nc.Opts.InboxPrefix != "" {
		prefix = nc.Opts.InboxPrefix + "."
	}
	return strings.HasPrefix(subject, prefix)
}

func (r *denials) tell(publish bool, subject string) {
	err := events.Refuse(events.CodeForbidden, "the NATS server does not let this user subscribe to %q: give it an inbox that it may have (--inbox-prefix, WithInboxPrefix), or the permissions of its role (engine permissions)", subject)
	if publish {
		err = events.Refuse(events.CodeForbidden, "the NATS server does not let this user publish to %q: give it the permissions of a role that may (engine permissions)", subject)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	come := r.last
	r.last = &denial{told: make(chan struct{})}
	come.publish, come.subject, come.err, come.after = publish, subject, err, r.last
	close(come.told)
}

// next is the denial that comes next. A nil receiver is told of none.
func (r *denials) next() *denial {
	if r == nil {
		return &denial{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// concerns reports whether what has been refused is needed for a request on a
// subject; the empty one stands for those that go to JetStream.
func (f *denial) concerns(subject string) bool {
	switch {
	case !f.publish:
		return true // an inbox
	case subject == "":
		return strings.HasPrefix(f.subject, "$")
	}
	return f.subject == subject
}
