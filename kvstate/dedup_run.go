package kvstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/sleep"
)

// run is the mirror's one goroutine.
func (d *Dedup) run(ctx context.Context) {
	defer close(d.stopped)
	// The server tells when the bucket is deleted, mostly: see pause.
	sub, err := d.o.Conn.Subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+d.b.conf.Name, func(*nats.Msg) { d.bucketGone() })
	if err != nil {
		d.o.Log.Warn("dedup mirror: a deleted bucket will be noticed late", "error", err)
	} else {
		defer func() { _ = sub.Unsubscribe() }()
	}
	retry := minDedupRetry
	begin := true
	for ctx.Err() == nil {
		err := d.step(ctx, begin)
		if err == nil {
			begin, retry = false, minDedupRetry
			if d.shared && time.Since(d.afresh) > d.o.LookEvery {
				d.o.Log.Warn("dedup mirror: somebody else writes to the bucket, such as an owner that was paused and did not know yet that it had been replaced: writing it afresh", "bucket", d.b.name)
				d.setStale()
				continue
			}
			d.pause(ctx)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		d.o.Log.Warn("dedup mirror: writing failed; trying again", "error", err, "in", retry)
		_ = sleep.For(ctx, retry) // the loop looks at ctx
		retry = min(2*retry, maxDedupRetry)
	}
}

// pause waits for something to do, and then a little for more of it. Meanwhile
// it looks after the bucket.
func (d *Dedup) pause(ctx context.Context) {
	look := time.NewTicker(d.o.LookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
			_ = sleep.For(ctx, d.o.Lag) // the loop looks at ctx
			return
		case <-look.C:
			if d.look(ctx); d.shared {
				return
			}
		}
	}
}

// look finds out whether the bucket is still the one that was written, and holds what was.
func (d *Dedup) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	st, err := d.js.Stream(ctx, d.b.conf.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && !st.CachedInfo().Created.Equal(d.created):
		d.bucketGone()
	case err == nil && st.CachedInfo().State.LastSeq != d.last:
		d.shared = true
	}
}

func (d *Dedup) bucketGone() {
	d.b.forget()
	d.mu.Lock()
	d.stale, d.shown, d.written = true, false, 0
	d.goneAt = time.Now()
	d.mu.Unlock()
	d.poke()
}

// step brings the bucket up to the changes fed so far.
func (d *Dedup) step(ctx context.Context, begin bool) error {
	if begin {
		if err := d.begin(ctx); err != nil {
			return err
		}
	}
	d.mu.Lock()
	stale := d.stale
	d.stale = false
	settle := time.Until(d.goneAt.Add(d.o.RecreateAfter))
	d.mu.Unlock()
	var err error
	if stale {
		_ = sleep.For(ctx, settle) // rewriting fails once ctx has ended
		err = d.rewrite(ctx)
	} else {
		err = d.flush(ctx)
	}
	if err == nil {
		return nil
	}
	if isGone(err) {
		d.bucketGone()
	} else if stale {
		d.setStale()
	}
	return err
}

func (d *Dedup) setStale() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
}

// begin checks that the bucket is at the position where the feed begins: that
// its position entry says so, and was written last. Otherwise something in the
// bucket may lie ahead of the position, left by a mirror that was killed.
func (d *Dedup) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := d.b.open(ctx); err != nil {
		return err
	}
	st, err := d.js.Stream(ctx, d.b.conf.Name)
	if err != nil {
		return fmt.Errorf("read bucket %s: %w", d.b.name, err)
	}
	d.created, d.last = st.CachedInfo().Created, st.CachedInfo().State.LastSeq
	sound := d.from == 0
	if d.last > 0 {
		msg, err := st.GetMsg(ctx, d.last)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("read bucket %s: %w", d.b.name, err)
		}
		sound = err == nil && msg.Subject == "$KV."+d.b.name+"."+positionKey && string(msg.Data) == string(d.position(d.from))
	}
	if sound {
		d.setWritten(d.from)
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale = true
	return nil
}

// position is the value of the position's entry.
func (d *Dedup) position(at events.Seq) []byte {
	return fmt.Appendf(nil, `{"position":"%s","log":%q}`, at, d.o.Identity)
}

// flush writes the pending changes.
func (d *Dedup) flush(ctx context.Context) error {
	d.mu.Lock()
	batch, upto, done := d.pending, d.upto, d.shown && d.written == d.upto
	if !done {
		d.pending = map[string]pendingKey{}
	}
	d.mu.Unlock()
	if done {
		return nil
	}
	w := d.writer(ctx)
	for key, p := range batch {
		w.put(key, p)
	}
	err := w.finish(upto)
	if err != nil {
		d.putBack(batch)
		return err
	}
	d.setWritten(upto)
	return nil
}

// putBack makes changes pending again that may not have been written, except
// where a newer one is pending. It is then unknown whether the bucket has their
// keys.
func (d *Dedup) putBack(batch map[string]pendingKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, p := range batch {
		if newer, ok := d.pending[key]; ok {
			p = newer
		}
		p.fresh = false
		d.pending[key] = p
	}
	if len(d.pending) > d.o.MaxPending {
		d.stale = true
		clear(d.pending)
	}
}

// rewrite writes every held key from a snapshot, then deletes the entries that
// it has not written: they still lie below the place in the bucket's stream
// where it began. Its memory does not grow with the number of keys.
//
// Keys fed meanwhile go to pending. They may be older than the snapshot, but
// then all of what was fed is: endRewrite tells the two cases apart.
func (d *Dedup) rewrite(ctx context.Context) error {
	d.b.forget()
	defer d.setRewriting(false)
	st, first, err := d.beginRewrite(ctx)
	if err != nil {
		return err
	}
	w := d.writer(ctx)
	at, err := d.o.Snapshot(ctx, func(h DedupHeld) error {
		w.put(DedupKey(h.Type, h.Key), pendingKey{entry: h.DedupEntry, held: true})
		return w.failed
	})
	if err != nil {
		return errors.Join(fmt.Errorf("read the held dedup keys: %w", err), w.wait())
	}
	if err := w.wait(); err != nil {
		return err
	}
	if err := d.sweep(ctx, st, first); err != nil {
		return err
	}
	w = d.writer(ctx)
	if err := w.finish(at); err != nil {
		return err
	}
	d.endRewrite(at)
	return nil
}

func (d *Dedup) setRewriting(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rewriting = on
}

func (d *Dedup) endRewrite(at events.Seq) {
	d.mu.Lock()
	if d.upto <= at {
		d.upto = at
		clear(d.pending) // all of it is in the snapshot, or was overtaken by it
	}
	d.mu.Unlock()
	d.setWritten(at)
	d.poke() // for what was fed meanwhile
}

// beginRewrite makes the bucket and returns its next sequence.
func (d *Dedup) beginRewrite(ctx context.Context) (jetstream.Stream, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := d.b.open(ctx); err != nil {
		return nil, 0, err
	}
	st, err := d.js.Stream(ctx, d.b.conf.Name)
	if err != nil {
		return nil, 0, fmt.Errorf("read bucket %s: %w", d.b.name, err)
	}
	d.created, d.last = st.CachedInfo().Created, st.CachedInfo().State.LastSeq
	d.shared, d.afresh = false, time.Now()
	// What was pending is in the snapshot, which is yet to be taken.
	d.mu.Lock()
	clear(d.pending)
	d.rewriting = true
	d.mu.Unlock()
	return st, d.last + 1, nil
}

// sweep deletes the entries below first.
func (d *Dedup) sweep(ctx context.Context, st jetstream.Stream, first uint64) error {
	w := d.writer(ctx)
	err := d.b.scan(ctx, st, first, func(key string, _ []byte) error {
		if key != positionKey {
			w.put(key, pendingKey{})
		}
		return w.failed
	})
	return errors.Join(err, w.wait())
}

// writer sends entries with up to dedupWindow in flight. It is used by one
// goroutine; after the first error it sends no more.
type writer struct {
	d      *Dedup
	ctx    context.Context
	flight []jetstream.PubAckFuture // oldest first
	failed error
}

func (d *Dedup) writer(ctx context.Context) *writer { return &writer{d: d, ctx: ctx} }

func (w *writer) put(key string, p pendingKey) {
	msg := &nats.Msg{Subject: w.d.prefix + key}
	if p.held {
		data, err := json.Marshal(p.entry)
		if err != nil {
			w.failed = errors.Join(w.failed, err)
			return
		}
		msg.Data = data
	} else {
		// A watcher sees the deletion; the trace is gone a minute later.
		msg.Header = nats.Header{"KV-Operation": {"DEL"}, jetstream.MsgTTLHeader: {DedupMarkerTTL.String()}}
	}
	w.send(msg)
}

func (w *writer) send(msg *nats.Msg) {
	if w.failed != nil {
		return
	}
	if len(w.flight) >= dedupWindow {
		w.first()
	}
	f, err := w.d.js.PublishMsgAsync(msg)
	if err != nil {
		w.failed = err
		return
	}
	w.flight = append(w.flight, f)
}

// first waits for the oldest write.
func (w *writer) first() {
	f := w.flight[0]
	w.flight = w.flight[1:]
	timer := time.NewTimer(requestTimeout)
	defer timer.Stop()
	var err error
	select {
	case ack := <-f.Ok():
		w.d.shared = w.d.shared || ack.Sequence != w.d.last+1
		w.d.last = ack.Sequence
	case err = <-f.Err():
	case <-timer.C:
		err = errors.New("the server did not answer")
	case <-w.ctx.Done():
		err = w.ctx.Err()
	}
	if w.failed == nil && err != nil {
		w.failed = fmt.Errorf("write bucket %s: %w", w.d.b.name, err)
	}
}

// wait returns when everything sent is stored, or with the first error.
func (w *writer) wait() error {
	for len(w.flight) > 0 && w.failed == nil {
		w.first()
	}
	return w.failed
}

// finish stores the position, after the entries that it covers.
func (w *writer) finish(at events.Seq) error {
	if err := w.wait(); err != nil {
		return err
	}
	w.send(&nats.Msg{Subject: w.d.prefix + positionKey, Data: w.d.position(at)})
	return w.wait()
}
