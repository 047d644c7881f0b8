package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
)

// What the server does with an append, as read in the source of nats-server
// 2.15 (server/stream.go, processJetStreamMsgWithBatch):
//
// A stream with one replica takes its messages one at a time, under its lock.
// It compares Nats-Expected-Last-Sequence with its last sequence, drops a
// message whose Nats-Msg-Id it has seen within the duplicate window, and then
// compares Nats-Expected-Last-Msg-Id with the Nats-Msg-Id of the last message
// stored, whatever its age: the duplicate window does not matter, and a last
// message without an id compares as the empty one, which none of ours is. After
// a restart that id is read from the last stored message's header (in
// rebuildDedupe), so it is unchanged; if the last message was lost, it is the
// id of the new last one, and our next message is refused, as it must be. The
// messages of an atomic batch keep their Nats-Msg-Id and set it too (the batch
// is refused only for one that is a duplicate; an expected last message id in
// it is not allowed), so a chain may follow a batch. It need not, though: the
// first message of every append states the expected sequence instead, and
// lineage goes no further than one append.
//
// So of a chain a prefix is stored: each message fits only directly behind its
// predecessor. Therefore only the first and the last message ask for an ack:
// the last one's says that all are stored, and at which position; if it is
// refused, the first one's says whether the append fitted at all. This saves
// the server and us most of the acks.
//
// An atomic batch is checked as a whole and stored as a whole; only its commit
// message asks for an ack. In file storage with one replica the server first
// writes it to a store of its own, so that a crash in the middle is completed
// at restart (if the last message stored belongs to an unfinished batch), and
// then again to the stream. Package staging keeps that store in memory. With more
// replicas the batch is proposed to them as one.

// atomicFrom is the number of events from which an append to a stream with one
// replica, on a server that syncs every write, is an atomic batch. Measured with
// BenchmarkAppend (…/always/…) on a disk that syncs in 0.2 ms: singles cost
// that much each, a batch about 2 ms and little more for each event, so that
// they meet at 11 or 12 events. A slower disk moves both alike.
const atomicFrom = 12

// stagedFrom is the same where the server stages the batch in memory.
const stagedFrom = 3

// strangersAfter is the number of appends that expect foreign messages after
// some have interrupted one.
const strangersAfter = 64

// windowBytes bounds what is sent without waiting for an ack. The server drops
// what exceeds 128 MiB in a stream's queue; a dropped message fences the rest.
const windowBytes = 8 << 20

// Append implements Log.
func (l *JetStream) Append(ctx context.Context, after events.Seq, evs []events.Event) (Appended, error) {
	if l.readOnly {
		return Appended{}, ErrReadOnly
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	s, err := l.session()
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return Appended{}, err
		}
		return Appended{}, &AmbiguousError{Expected: after, Count: len(evs), Cause: err}
	}
	return appendOn(evs, after, func(after events.Seq, evs []events.Event) (*encoder, events.Seq, error) {
		if err := l.enc.encode(evs, s.nc.MaxPayload()); err != nil {
			return nil, 0, err
		}
		a := attempt{log: l, sess: s, enc: l.enc, after: after, n: len(evs), evs: evs, led: l.led.Load()}
		last, err := a.run(ctx)
		l.note(&a, last, err)
		return l.enc, last, err
	})
}

// note takes from the end of an attempt what the next ones need.
func (l *JetStream) note(a *attempt, last events.Seq, err error) {
	l.strangers = max(l.strangers-1, 0)
	switch in := (*interruptedError)(nil); {
	case err == nil:
		for i := a.n - 1; i >= 0; i-- {
			if l.fences(a.enc.subj[i]) {
				l.fence = last - events.Seq(a.n-1-i)
				break
			}
		}
	case errors.Is(err, ErrAmbiguous):
		l.abandon()
	case errors.As(err, &in):
		l.strangers = strangersAfter
		if slices.ContainsFunc(a.enc.subj, l.fences) {
			l.fence = 0 // it may have been stored
		}
	}
}

// interruptedFor bounds how long an append goes on behind foreign messages.
const interruptedFor = 10 * time.Second

// appendOn appends events behind after, trying again with the remaining ones as
// long as only foreign messages interrupt it. A later try begins behind the
// foreign messages that have been read, so it is fenced like the first. It
// returns the position of its last event.
func appendOn(evs []events.Event, after events.Seq, try func(after events.Seq, evs []events.Event) (*encoder, events.Seq, error)) (Appended, error) {
	var out Appended
	all, begun := len(evs), time.Now()
	for {
		enc, last, err := try(after, evs)
		var in *interruptedError
		switch {
		case err == nil:
			n := len(evs)
			if at := last - events.Seq(n); at != after {
				out.place(all-n, at)
			}
			out.Last, out.Checksum = last, events.Checksum(enc.data(n-1))
			out.Bytes += len(enc.buf)
			return out, nil
		case !errors.As(err, &in) || time.Since(begun) > interruptedFor:
			return Appended{}, err
		}
		if kept := int(in.kept - after); kept > 0 {
			if out.Places == nil {
				out.place(0, after)
			}
			out.Bytes += enc.ends[kept-1]
			evs = evs[kept:]
		}
		after = in.last
		out.place(all-len(evs), after)
	}
}

// place says that the events from n on are behind a position.
func (a *Appended) place(n int, behind events.Seq) {
	if last := len(a.Places) - 1; last >= 0 && a.Places[last].N == n {
		a.Places = a.Places[:last] // nothing was stored there
	}
	a.Places = append(a.Places, Place{N: n, Seq: behind + 1})
}

// atomic reports whether the append of n events that has been encoded is an atomic batch.
func (l *JetStream) atomic(n int) bool {
	switch {
	case n == 1:
		return false
	case l.replicated:
		return true
	case !l.cfg.SyncAlways || n < stagedFrom:
		return false
	}
	return l.cfg.Staged != nil && l.cfg.Staged(len(l.enc.buf)) || n >= atomicFrom
}

// attempt is one append on its way.
type attempt struct {
	log   *JetStream
	sess  *session
	enc   *encoder
	after events.Seq
	n     int
	evs   []events.Event
	led   int64 // who led the stream before
}

// run returns the position of the last event.
func (a *attempt) run(ctx context.Context) (events.Seq, error) {
	if a.sess.broken() {
		return 0, a.ambiguous(errConnectionLost)
	}
	if err := ctx.Err(); err != nil {
		return 0, err // nothing is sent
	}
	last := a.after + events.Seq(a.n)
	switch {
	case a.log.strangers > 0 && a.log.fence != 0:
		return a.behindStrangers(ctx)
	case a.log.path(a.n) && (a.log.strangers == 0 || a.log.replicated):
		return last, a.batch(ctx, a.expectLast)
	}
	return last, a.chain(ctx)
}

func (a *attempt) expectLast(h *header) {
	h.setLast(nats.ExpectedLastSeqHdr, strconv.FormatUint(uint64(a.after), 10))
}

// chain publishes singles, each behind its predecessor.
func (a *attempt) chain(ctx context.Context) error {
	var firstToken, token string
	h := newHeader()
	m := &nats.Msg{Header: h.Header}
	size := 0
	for i := range a.n {
		if i == 0 {
			h.setLast(nats.ExpectedLastSeqHdr, strconv.FormatUint(uint64(a.after), 10))
		} else {
			if i == 1 {
				delete(h.Header, nats.ExpectedLastSeqHdr)
			}
			h.setLast(nats.ExpectedLastMsgIdHdr, a.enc.ids[i-1])
		}
		data := a.enc.data(i)
		size += len(data)
		wait := i == a.n-1 || size >= windowBytes
		m.Reply = ""
		if i == 0 || wait {
			token = a.sess.token()
			m.Reply = token
		}
		if i == 0 {
			firstToken = token
		}
		if err := a.publish(m, h, i); err != nil {
			return err
		}
		if !wait {
			continue
		}
		if firstToken != "" && firstToken != token {
			if err := a.first(ctx, firstToken); err != nil {
				return err
			}
		}
		if err := a.stored(ctx, token, i+1, a.n == 1); err != nil {
			return err
		}
		firstToken, size = "", 0
	}
	return nil
}

// batch publishes an atomic batch; expect fills in the header of its first
// message.
func (a *attempt) batch(ctx context.Context, expect func(*header)) error {
	token, err := a.sendBatch(ctx, expect)
	if err != nil {
		return err
	}
	return a.stored(ctx, token, a.n, true)
}

// sendBatch returns the token of the ack for the whole.
func (a *attempt) sendBatch(ctx context.Context, expect func(*header)) (string, error) {
	h := newHeader()
	h.Header[headerBatchID] = []string{a.enc.batchID()}
	seq := make([]string, 1)
	h.Header[headerBatchSeq] = seq
	m := &nats.Msg{Header: h.Header}
	size := 0
	for i := range a.n {
		if i == 0 {
			expect(h)
		} else if i == 1 {
			h.expectNothing()
		}
		seq[0] = strconv.Itoa(i + 1)
		size += len(a.enc.data(i))
		m.Reply = ""
		if i == a.n-1 {
			h.Header[headerBatchCommit] = []string{"1"}
			m.Reply = a.sess.token()
		} else if size >= windowBytes {
			m.Reply = a.sess.token()
		}
		if err := a.publish(m, h, i); err != nil {
			return "", err
		}
		if i < a.n-1 && m.Reply != "" {
			// The server has staged what was sent so far.
			if err := a.staged(ctx, m.Reply); err != nil {
				return "", err
			}
			size = 0
		}
	}
	return m.Reply, nil
}

func (a *attempt) publish(m *nats.Msg, h *header, i int) error {
	h.setID(a.enc.ids[i])
	m.Subject, m.Data = a.enc.subj[i], a.enc.data(i)
	if err := a.sess.nc.PublishMsg(m); err != nil {
		return a.ambiguous(err)
	}
	return nil
}

// await waits for the ack on a reply subject. An error means that there is none.
func (a *attempt) await(ctx context.Context, token string) (ack, error) {
	m, err := a.awaitRaw(ctx, token)
	if err != nil {
		return ack{}, err
	}
	return parseAck(m)
}

// awaitRaw waits for the message on a reply subject. On a replicated stream it gives up when
// it finds that another server leads: the last leader drops what reaches it too late, without
// a word.
func (a *attempt) awaitRaw(ctx context.Context, token string) (*nats.Msg, error) {
	timeout := a.log.cfg.AckTimeout
	if !a.log.replicated {
		return a.sess.awaitRaw(ctx, token, timeout)
	}
	for end := time.Now().Add(timeout); ; {
		m, err := a.sess.awaitRaw(ctx, token, min(slowAck, time.Until(end)))
		switch {
		case !errors.Is(err, errAckTimeout) || !time.Now().Before(end):
			return m, err
		case a.log.deposed(ctx, a.led):
			return nil, errDeposed
		}
	}
}

// first takes the ack of a chain's first message.
func (a *attempt) first(ctx context.Context, token string) error {
	k, err := a.await(ctx, token)
	if err != nil {
		return a.ambiguous(err)
	}
	return a.judge(ctx, k, 1, true)
}

// stored takes the ack which says that the first n messages are stored. For
// whole see judge.
func (a *attempt) stored(ctx context.Context, token string, n int, whole bool) error {
	k, err := a.await(ctx, token)
	if err != nil {
		return a.ambiguous(err)
	}
	if k.Error != nil && k.Error.Code == codeWrongLastMsgID {
		return a.broke(ctx, k.Error)
	}
	return a.judge(ctx, k, n, whole)
}

// staged takes the ack of a batch's message that is no commit: it is empty.
func (a *attempt) staged(ctx context.Context, token string) error {
	m, err := a.awaitRaw(ctx, token)
	if err == nil && len(m.Data) > 0 {
		var k ack
		if k, err = parseAck(m); err == nil && k.Error != nil {
			return a.judge(ctx, k, 0, true)
		}
	}
	if err != nil {
		return a.ambiguous(err)
	}
	return nil
}

// judge turns an ack for the first n messages into an error. whole says that a
// refusal leaves nothing of the append stored.
func (a *attempt) judge(ctx context.Context, k ack, n int, whole bool) error {
	want := a.after + events.Seq(n)
	switch {
	case k.Error == nil && k.Seq == want && !k.Duplicate:
		return nil
	case k.Error == nil:
		// Neither can be: the position was compared, and ids never repeat.
		return &CorruptError{Seq: want, Reason: fmt.Sprintf("an append was acknowledged as stored at %d (duplicate: %t)", k.Seq, k.Duplicate)}
	case k.Error.fenced():
		return a.refused(ctx, 0, k.Error.found(), k.Error.Description)
	case k.Error.full():
		return &FullError{Expected: a.after, Prefix: !whole, Detail: k.Error.Error()}
	}
	return a.ambiguous(k.Error)
}

// broke finds out why a chain whose first message was stored has not reached
// its end: another writer, foreign messages, or a message that did not fit any
// more. The log's last message tells: behind ours alone, nobody else has written.
func (a *attempt) broke(ctx context.Context, refusal *apiError) error {
	tip, err := a.log.Last(ctx)
	if err != nil {
		return a.ambiguous(errors.Join(refusal, err))
	}
	m, err := a.log.get(ctx, tip.Seq)
	if err != nil {
		return a.ambiguous(errors.Join(refusal, err))
	}
	if i := tip.Seq - a.after; i >= 1 && i <= events.Seq(a.n) && m.id == a.enc.ids[i-1] {
		return &FullError{Expected: a.after, Prefix: true, Detail: "only a part of the append was stored"}
	}
	stored, err := a.prefix(ctx, tip.Seq)
	if err != nil {
		return &FencedError{Expected: a.after, Found: tip.Seq, Detail: refusal.Description}
	}
	return a.refused(ctx, stored, tip.Seq, refusal.Description)
}

// prefix counts the messages of a broken chain that are stored, at least the
// first. They are a prefix of it, at the positions where they were to go.
func (a *attempt) prefix(ctx context.Context, last events.Seq) (int, error) {
	most := min(a.n, int(last-a.after)) // the one at most, counted from 1, is not ours
	var fault error
	n := sort.Search(most, func(i int) bool {
		if i == 0 || fault != nil {
			return false
		}
		m, err := a.log.get(ctx, a.after+events.Seq(i+1))
		if err != nil {
			fault = err
			return false
		}
		return m.id != a.enc.ids[i]
	})
	return n, fault
}

// refused judges a refusal for what others have written: by foreign messages
// alone, behind the first stored ones of ours, the append was interrupted, by
// anything else it is fenced.
func (a *attempt) refused(ctx context.Context, stored int, found events.Seq, detail string) error {
	fenced := FencedError{Expected: a.after, Found: found, Detail: detail}
	at := a.after + events.Seq(stored)
	if found <= at {
		return &fenced
	}
	if last := a.log.foreignNow(ctx, at); last >= found {
		return &interruptedError{fenced, keptOf(a.after, a.evs[:stored]), last}
	}
	if alone, err := a.log.Foreign(ctx, at, found); err == nil && alone {
		return &interruptedError{fenced, keptOf(a.after, a.evs[:stored]), found}
	}
	return &fenced
}

// keptOf returns the position of the last stored event that counts: the ones
// behind it belong to an incomplete decision.
func keptOf(after events.Seq, stored []events.Event) events.Seq {
	n := len(stored)
	for n > 0 && !stored[n-1].Tx.Last() {
		n--
	}
	return after + events.Seq(n)
}

func (a *attempt) ambiguous(cause error) error {
	return &AmbiguousError{Expected: a.after, Count: a.n, Cause: cause}
}
