package workers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/streamwright/streamwright/wire"
)

// store keeps the chunks of an output.
type store struct {
	hold chan struct{} // nil, or what each chunk waits for
	err  error

	mu     sync.Mutex
	chunks []string // guarded by mu
}

// got returns the chunks so far.
func (s *store) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.chunks)
}

func (s *store) take(ctx context.Context, offset int, chunk []byte) (OutputSummary, error) {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return OutputSummary{}, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chunks = append(s.chunks, string(chunk))
	return OutputSummary{Bytes: offset + len(chunk)}, s.err
}

func (s *store) run(ctx context.Context, attempt int, h func(out *Output) error) Outcome {
	item := &RawItem{Attempt: 1, OnOutput: s.take}
	if attempt > 1 {
		item.Attempt = 2
	}
	return Invoke(ctx, func(_ context.Context, it *RawItem) (any, error) { return nil, h(it.Output()) }, item)
}

// The first write is sent at once, those after it together, and much of it without a wait.
func TestSmallWritesAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		began := time.Now()
		out := s.run(t.Context(), 1, func(out *Output) error {
			for _, text := range []string{"a", "b", "c"} {
				io.WriteString(out, text)
				synctest.Wait()
			}
			if got := s.got(); len(got) != 1 || time.Since(began) != 0 {
				t.Errorf("at once: %q", got)
			}
			time.Sleep(OutputEvery)
			synctest.Wait()
			if got := s.got(); len(got) != 2 || got[1] != "bc" {
				t.Errorf("later: %q", got)
			}
			out.Write(bytes.Repeat([]byte("x"), outputMuch))
			synctest.Wait()
			if got := s.got(); len(got) != 3 || out.Summary().Bytes != 3+outputMuch {
				t.Errorf("much: %d chunks, %+v", len(got), out.Summary())
			}
			io.WriteString(out, "the end")
			return nil
		})
		if got := s.got(); out.Err != nil || len(got) != 4 || got[3] != "the end" {
			t.Errorf("%v, %q", out.Err, got[3:])
		}
	})
}

// Whatever the writes, no chunk but the last ends within a character.
func TestChunksHaveWholeCharacters(t *testing.T) {
	all := bytes.Repeat([]byte("größer € 𝄞"), 20_000)
	s := &store{}
	out := s.run(t.Context(), 1, func(out *Output) error {
		for i := 0; i < len(all); i += 7 {
			if _, err := out.Write(all[i:min(i+7, len(all))]); err != nil {
				return err
			}
		}
		return nil
	})
	var got []byte
	for i, c := range s.got() {
		if !utf8.ValidString(c) || len(c) > wire.MaxOutputChunk {
			t.Errorf("chunk %d, of %d bytes, ends within a character", i, len(c))
		}
		got = append(got, c...)
	}
	if out.Err != nil || !bytes.Equal(got, all) {
		t.Errorf("%v, %d bytes of %d", out.Err, len(got), len(all))
	}
}

// Write waits while the engine takes nothing, up to the end of the run's context.
func TestOutputWaitsForTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{hold: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(t.Context())
		n, written := 0, error(nil)
		out := s.run(ctx, 1, func(out *Output) error {
			time.AfterFunc(time.Hour, func() { cancel(ErrCancelled) })
			n, written = out.Write(make([]byte, 10*outputBuffer))
			return nil
		})
		if n < outputBuffer || n > 2*outputBuffer+wire.MaxOutputChunk || !errors.Is(written, ErrCancelled) {
			t.Errorf("%d bytes were taken, %v", n, written)
		}
		if !errors.Is(out.Err, ErrCancelled) {
			t.Errorf("the run ended with %v", out.Err)
		}
	})
}

func TestARunWhoseOutputIsLostFails(t *testing.T) {
	lost := errors.New("no disk")
	s := &store{err: lost}
	out := s.run(t.Context(), 1, func(out *Output) error {
		io.WriteString(out, "text")
		return nil
	})
	if !errors.Is(out.Err, lost) || out.Code != FailOutput || !out.Retryable {
		t.Errorf("%+v", out)
	}
	// One that fails anyway says why itself.
	own := errors.New("own")
	if out := s.run(t.Context(), 1, func(out *Output) error { io.WriteString(out, "text"); return own }); !errors.Is(out.Err, own) || errors.Is(out.Err, lost) {
		t.Errorf("%+v", out)
	}
}

// A run that is not the first voids the output of the one before, though it writes nothing.
func TestALaterRunResetsTheOutput(t *testing.T) {
	for attempt, want := range map[int]int{1: 0, 2: 1} {
		s := &store{}
		if out := s.run(t.Context(), attempt, func(*Output) error { return nil }); out.Err != nil || len(s.got()) != want {
			t.Errorf("attempt %d: %q, %v", attempt, s.got(), out.Err)
		}
	}
	kept := (*Output)(nil)
	(&store{}).run(t.Context(), 1, func(out *Output) error { kept = out; return nil })
	if _, err := io.WriteString(kept, "late"); !errors.Is(err, errOutputClosed) {
		t.Errorf("behind the end of the run: %v", err)
	}
}
