package eventlog

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// How an append is fenced while foreign messages keep coming. Naming the last
// position is a race with them: more may come between the last read and the
// append. So the append names the owner's last event on the partition's own
// subjects instead. The first such event is the owned event that its ownership
// began with, and any other engine must write to these subjects before anything
// else: the append is stored if and only if nobody else has become the owner,
// whatever came on other subjects. It is one message, or one atomic batch, so
// it is stored whole or not at all, with nothing in between.
//
// A former owner has nothing in flight that could be stored behind ours: its
// append names a position or a predecessor that is no longer the last, or an
// event of its own on those subjects, and our owned event lies behind that. The
// messages in front of the append are read afterwards; if they are not foreign,
// contrary to all this, the outcome counts as unknown, and Settle reads what is
// there.
//
// On a replicated stream the leader compares a subject with those in flight by
// its literal name, so there only the subject of owned events fences. A flood
// on the partition's own subjects still races with the append.

// fenceFilter returns what matches the subjects that fence.
func (l *JetStream) fenceFilter() string {
	kind := "*"
	if l.replicated {
		kind = events.KindOwned.String()
	}
	return l.cfg.Names.EventFilter(strconv.Itoa(l.cfg.Partition), "_", kind)
}

// fences reports whether an event of ours on a subject fences.
func (l *JetStream) fences(subject string) bool {
	prefix, wild := strings.CutSuffix(l.fencing, "*")
	return subject == l.fencing || wild && strings.HasPrefix(subject, prefix)
}

// behindStrangers appends behind whatever foreign messages there are, and returns
// the position of the last event.
func (a *attempt) behindStrangers(ctx context.Context) (events.Seq, error) {
	expect := func(h *header) { h.setFence(strconv.FormatUint(uint64(a.log.fence), 10), a.log.fencing) }
	token, err := "", error(nil)
	if a.n == 1 {
		h := newHeader()
		expect(h)
		token = a.sess.token()
		err = a.publish(&nats.Msg{Header: h.Header, Reply: token}, h, 0)
	} else {
		token, err = a.sendBatch(ctx, expect)
	}
	if err != nil {
		return 0, err
	}
	k, err := a.await(ctx, token)
	switch {
	case err != nil:
		return 0, a.ambiguous(err)
	case k.Error != nil && k.Error.fenced():
		return 0, a.refusedBehind(ctx, k.Error)
	case k.Error != nil:
		return 0, a.judge(ctx, k, a.n, true)
	}
	if before := k.Seq - events.Seq(a.n); before > a.after {
		if alone, err := a.log.Foreign(ctx, a.after, before); !alone {
			return 0, a.ambiguous(errors.Join(errNotForeign, err))
		}
	} else if before < a.after || k.Duplicate {
		return 0, a.judge(ctx, k, a.n, true)
	}
	return k.Seq, nil
}

var errNotForeign = errors.New("an engine may have written it")

// refusedBehind judges a refusal by the fence: it was a foreign message that
// moved it, or another owner.
func (a *attempt) refusedBehind(ctx context.Context, refusal *apiError) error {
	a.log.fence = 0 // it is named no more, until the next event of ours
	tip, err := a.log.Last(ctx)
	if err != nil {
		return &FencedError{Expected: a.after, Found: refusal.found(), Detail: refusal.Description}
	}
	if tip.Seq == a.after { // the event that fenced was cut off the log
		return &interruptedError{FencedError{Expected: a.after, Found: tip.Seq, Detail: refusal.Description}, a.after, a.after}
	}
	return a.refused(ctx, 0, tip.Seq, refusal.Description)
}
