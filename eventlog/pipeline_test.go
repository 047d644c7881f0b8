package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
)

// A replay holds no more than its bound of what it has read ahead, whatever the size of the
// messages, and one message that is larger alone.
func TestReplayIsBoundedInBytes(t *testing.T) {
	for name, size := range map[string]int{"large": PipelineBytes / 3, "larger than the bound": PipelineBytes + 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const total = 20
				data := make([]byte, size)
				put, seen := 0, 0
				goOn, ended := make(chan struct{}), make(chan error)
				go func() {
					asked := 0
					ended <- Replay(t.Context(), func(uint64, string) { seen++; <-goOn }, func(context.Context) (Stored, bool, error) {
						put = asked // the messages before this one have found room
						asked++
						return Stored{Seq: uint64(asked), Data: data}, asked <= total, nil
					}, ignore)
				}()
				most := max(1, PipelineBytes/size)
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
	m := encoded(t, logtest.Write(logtest.Decision(1, "a")))
	err := Replay(t.Context(), nil, func(context.Context) (Stored, bool, error) {
		m.Seq++
		return m, true, nil
	}, func(Frame) error { return stop })
	if err != stop {
		t.Fatal(err)
	}
}
