package eventlog

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A replay holds no more than its bound of what it has read ahead, whatever the size of the
// messages, and one message that is larger alone.
func TestReplayIsBoundedInBytes(t *testing.T) {
	for name, size := range map[string]int{"large": pipelineBytes / 3, "larger than the bound": pipelineBytes + 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const total = 20
				data := make([]byte, size)
				put, seen := 0, 0
				goOn, ended := make(chan struct{}), make(chan error)
				go func() {
					ended <- replay(t.Context(), func(uint64, string) { seen++; <-goOn }, func(ctx context.Context, p *pipeline) error {
						for range total {
							if err := p.put(ctx, message{data: data}); err != nil {
								return err
							}
							put++
						}
						return nil
					}, ignore)
				}()
				most := max(1, pipelineBytes/size)
				for n := range total {
					synctest.Wait()
					if seen != n+1 || put > n+most || put < min(n+most, total) {
						t.Fatalf("with %d messages done, %d were read ahead, want %d", n, put-n, most)
					}
					goOn <- struct{}{}
				}
				if err := <-ended; err != nil || seen != total {
					t.Fatalf("%d of %d messages: %v", seen, total, err)
				}
			})
		})
	}
}

// A replay that ends early ends its reader too, even one that waits for room.
func TestReplayEndsItsReader(t *testing.T) {
	stop := errors.New("stop")
	m := encoded(t, write(decision(1, "a")))
	err := replay(t.Context(), nil, func(ctx context.Context, p *pipeline) error {
		for {
			if err := p.put(ctx, m); err != nil {
				return err
			}
		}
	}, func(Frame) error { return stop })
	if err != stop {
		t.Fatal(err)
	}
}
