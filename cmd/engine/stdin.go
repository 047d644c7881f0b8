package main

import (
	"context"
	"io"
	"sync"
)

// untilEnd reads in until ctx ends: a read of a terminal or a pipe can't be ended, and lasts as
// long as the program. Nothing is read before the first Read.
func untilEnd(ctx context.Context, in io.Reader) io.Reader {
	return &endingReader{open: sync.OnceValue(func() io.Reader {
		r, w := io.Pipe()
		context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
		go func() {
			_, err := io.Copy(w, in)
			_ = w.CloseWithError(err)
		}()
		return r
	})}
}

type endingReader struct{ open func() io.Reader }

func (e *endingReader) Read(p []byte) (int, error) { return e.open().Read(p) }
