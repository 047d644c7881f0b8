package projector

import (
	"context"
	"runtime"
	"testing"

	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
)

// endsReader ends the goroutine that reads it.
type endsReader struct{ Log }

func (endsReader) Read(context.Context, uint64, uint64, func(eventlog.Frame) error) error {
	runtime.Goexit()
	return nil
}

// A goroutine that ends while it makes a store anew leaves the store as it was, and nothing
// open: the package's goroutines are looked at when its tests have ended.
func TestAnEndWhileAStoreIsMadeAnew(t *testing.T) {
	s, err := Open("", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Renew(t.Context(), endsReader{}, events.SeqOf(1, 0), nil)
		t.Error("the reader went on")
	}()
	<-ended
	if s.Applied() != 0 {
		t.Errorf("the store is at %d", s.Applied())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
