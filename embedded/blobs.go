package embedded

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/api"
	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/wire"
)

// newJanitor makes what looks after the object store of large documents.
func (d *decider) newJanitor() (err error) {
	d.janitor, err = blobs.NewJanitor(blobs.JanitorConfig{
		Conn: d.nc, Names: d.names(), Bucket: blobs.BucketConfig{Memory: d.o.Memory, Replicas: d.copies.replicas, Placement: d.copies.placement, MaxBytes: d.share("blob_max_size", d.cfg.Limits.BlobMaxBytes, config.Default().Limits.BlobMaxBytes)},
		Exists: func(_ context.Context, id events.ID) (bool, error) {
			it, err := d.ledger.store.Item(id)
			return it != nil, err
		},
		Undecided: d.undecided, Logger: d.log,
	})
	return err
}

// startBlobs makes the object store, and has it looked after.
func (d *decider) startBlobs(ctx context.Context) error { return d.patiently(ctx, d.janitor.Start) }

func (d *decider) stopBlobs() { d.janitor.Stop() }

// childReader returns the function that reads the children of a large spawn from
// the object store.
func childReader(nc *nats.Conn, names wire.Names) (func(context.Context, string) ([]core.Submit, error), error) {
	store, err := blobs.New(nc, names, blobs.DefaultMaxBytes)
	if err != nil {
		return nil, err
	}
	none := func() events.ID { return events.ID{} } // they are named when they are made
	return func(ctx context.Context, text string) ([]core.Submit, error) {
		ref, err := blobs.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		children, err := api.ReadChildren(ctx, store, ref)
		if err != nil {
			return nil, err
		}
		return wire.ChildCommands(children, none, events.MaxParamsCeiling)
	}, nil
}

// undecided returns since when the oldest submission has waited in the intake; zero
// if none does. Before it looks it sees to it that the store is up with the
// log: its own position may be old if another engine has taken over, so the
// log's end counts.
func (d *decider) undecided(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	js, err := connect.JetStream(d.nc, d.names())
	if err != nil {
		return time.Time{}, err
	}
	s, err := js.Stream(ctx, d.names().IntakeStream())
	if err != nil {
		return time.Time{}, err
	}
	end, err := d.ledger.eventLog.End(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if err := d.dispatcher.Await(ctx, end.Last); err != nil {
		return time.Time{}, err
	}
	if state := s.CachedInfo().State; state.Msgs > 0 {
		return state.FirstTime, nil
	}
	return time.Time{}, nil
}
