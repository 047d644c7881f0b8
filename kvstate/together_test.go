package kvstate

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/internal/natscluster"
	"github.com/streamwright/streamwright/wire"
)

// Engines that start together on a new cluster make the same bucket at once. Each must
// find it, and the same key in it.
func TestBucketMadeByThreeAtOnce(t *testing.T) {
	servers := natscluster.Start(t)
	for round := range 5 {
		names := wire.Names{Prefix: fmt.Sprintf("work%d", round)}
		keys := make([]string, len(servers))
		g, ctx := errgroup.WithContext(testContext(t))
		for i, s := range servers {
			nc, err := nats.Connect(s.ClientURL())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			js, err := connect.JetStream(nc, names)
			if err != nil {
				t.Fatal(err)
			}
			g.Go(func() (err error) {
				keys[i], err = share(ctx, NewKeys(js, names).Replicate(3, nil), byte('a'+i))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if keys[0] != keys[1] || keys[1] != keys[2] {
			t.Errorf("the engines have the keys %q", keys)
		}
	}
}

func share(ctx context.Context, k *Keys, mine byte) (string, error) {
	key, err := k.Share(ctx, "http_workers", []byte{mine})
	return string(key), err
}
