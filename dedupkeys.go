package streamwright

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// Holder is the live item that holds a dedup key, as the KV bucket of taken keys
// shows it.
type Holder = wire.Holder

const (
	bucketTimeout = time.Second      // for one entry of the bucket
	bucketAgain   = 10 * time.Second // after the bucket did not answer, it is left alone for so long

	// holderLook is the interval at which a watched key is looked at when nothing shows that
	// its holder has changed.
	holderLook = time.Second
)

// DedupKeys looks up who holds a dedup key. [Client.DedupKeys] returns one.
type DedupKeys struct{ c *Client }

// DedupKeys returns the handle for dedup keys:
//
//	holder, err := client.DedupKeys().Holder(ctx, "email", "welcome:42")
func (c *Client) DedupKeys() DedupKeys { return DedupKeys{c} }

// Holder returns the live item of a type that holds a dedup key: the one that a
// submission with this key would be a duplicate of. A key that nobody holds is
// CodeNotFound; that includes one that a completed item keeps for its dedup
// window. It needs the role read.
//
// It reads the bucket of taken keys, which costs the engine nothing, and is some
// milliseconds behind it. It asks the engine if there is no such bucket, if the
// client's user may not read it, or if the bucket lags behind the engine's replies
// to this client.
//
// The answer is a hint: the key may be taken, or free, by the time that it is
// read. The submission alone decides.
func (k DedupKeys) Holder(ctx context.Context, typ, key string) (Holder, error) {
	h, held, known := k.fromBucket(ctx, typ, key)
	switch {
	case !known:
		return k.ask(ctx, typ, key, k.c.set.patience)
	case !held:
		return Holder{}, events.Refuse(events.CodeNotFound, "no live item of type %s holds the dedup key %q", typ, key)
	}
	return h, nil
}

// Watch tells fn which item holds a dedup key of a type: at once, and again
// whenever the holder or its state has changed. A [Holder] without ID says that the
// key is free. States that come and go within some milliseconds may be left out. It
// ends with fn's error, or when ctx ends. It needs the role read.
//
// It asks the engine, each second and whenever the bucket of taken keys shows a
// change.
func (k DedupKeys) Watch(ctx context.Context, typ, key string, fn func(Holder) error) error {
	// First what is refused: a subscription that is denied would fail other requests.
	if _, err := k.ask(ctx, typ, key, k.c.set.patience); err != nil && events.CodeOf(err) != events.CodeNotFound {
		return err
	}
	wake := make(chan struct{}, 1)
	subject := "$KV." + k.c.set.names.Bucket(wire.DedupBucket) + "." + wire.DedupEntry(events.Type(typ), key)
	sub, err := k.c.nc.Subscribe(subject, func(*nats.Msg) {
		nudge.Send(wake)
	})
	if err != nil {
		return k.c.failed("watch a dedup key", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var last Holder
	for first := true; ; first = false {
		h, err := k.ask(ctx, typ, key, forever)
		if err != nil && events.CodeOf(err) != events.CodeNotFound {
			return err
		}
		if first || h != last {
			if err := fn(h); err != nil {
				return err
			}
			last = h
		}
		timer := time.NewTimer(holderLook)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return endOf("watch a dedup key", ctx.Err(), nil)
		}
		timer.Stop()
	}
}

// ask asks the engine who holds a key.
func (k DedupKeys) ask(ctx context.Context, typ, key string, patience time.Duration) (Holder, error) {
	return askFor[Holder](ctx, k.c, wire.APIHeld, wire.HolderRequest{Type: typ, Key: key, MinPosition: k.c.Position()}, 0, patience)
}

// fromBucket reads the holder of a key from the bucket. known is false if the
// engine is to be asked.
func (k DedupKeys) fromBucket(ctx context.Context, typ, key string) (h Holder, held, known bool) {
	t, err := events.ParseType(typ)
	if err != nil || key == "" || len(key) > events.MaxKeyLen || time.Now().UnixNano() < k.c.noBucket.Load() {
		return h, false, false
	}
	names := k.c.find.Names(ctx)
	if names.Domain == names.ImportDomain() {
		return h, false, false // an account without JetStream
	}
	if !k.bucketShows(ctx, names, k.c.seen.Load()) {
		return h, false, false
	}
	data, held, known := k.bucketEntry(ctx, names, wire.DedupEntry(t, key))
	if held && json.Unmarshal(data, &h) != nil {
		return Holder{}, false, false
	}
	return h, held, known
}

// bucketShows reports whether the bucket is filled, and shows a position.
func (k DedupKeys) bucketShows(ctx context.Context, names wire.Names, seen uint64) bool {
	data, _, _ := k.bucketEntry(ctx, names, wire.DedupPosition)
	var shown struct {
		Position wire.Position `json:"position"`
	}
	if json.Unmarshal(data, &shown) != nil {
		return false
	}
	at, err := shown.Position.Seq()
	return err == nil && uint64(at) >= seen
}

// bucketEntry reads an entry of the bucket. known is false if that gave no answer.
func (k DedupKeys) bucketEntry(ctx context.Context, names wire.Names, entry string) (data []byte, found, known bool) {
	bucket := names.Bucket(wire.DedupBucket)
	subject := names.JetStream("DIRECT.GET.KV_" + bucket + ".$KV." + bucket + "." + entry)
	try, cancel := k.c.trying(ctx, subject, bucketTimeout)
	defer cancel()
	m, err := k.c.nc.RequestWithContext(try, subject, nil)
	if err != nil {
		if ctx.Err() == nil {
			k.c.noBucket.Store(time.Now().Add(bucketAgain).UnixNano())
		}
		return nil, false, false
	}
	switch status := m.Header.Get("Status"); {
	case status == "404":
		return nil, false, true
	case status != "":
		return nil, false, false
	}
	if m.Header.Get("KV-Operation") != "" || m.Header.Get("Nats-Marker-Reason") != "" {
		return nil, false, true // deleted
	}
	return m.Data, true, true
}
