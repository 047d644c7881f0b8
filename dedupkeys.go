package streamwright

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/nudge"
	"github.com/streamwright/streamwright/wire"
)

// Holder is the live item that holds a dedup key.
type Holder = wire.Holder

// holderLook is the interval at which a watched key is looked at when nothing shows that
// its holder has changed.
const holderLook = time.Second

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
// The answer is a hint: the key may be taken, or free, by the time that it is
// read. The submission alone decides.
func (k DedupKeys) Holder(ctx context.Context, typ, key string) (Holder, error) {
	return k.ask(ctx, typ, key, k.c.set.patience)
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
