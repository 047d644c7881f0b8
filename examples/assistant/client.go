package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/streamwright/streamwright"
)

// ask asks for something, and shows on out what is said.
func ask(ctx context.Context, c *streamwright.Client, text string, out io.Writer) error {
	sub, err := help.Submit(ctx, c, Request{text})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, sub.ID)
	s := screen{out: out}
	if err := c.FollowOutput(ctx, sub.ID, 0, s.show); err != nil {
		return err
	}
	_, err = help.Wait(ctx, c, sub.ID)
	return err
}

// screen shows an output where nothing can be taken back.
type screen struct {
	out         io.Writer
	text, shown string
}

func (s *screen) show(chunk streamwright.OutputChunk) error {
	if chunk.Reset { // another run begins, with what the one before has said
		s.text = ""
	}
	b, err := chunk.Bytes()
	if err != nil {
		return err
	}
	s.text += string(b)
	switch {
	case strings.HasPrefix(s.shown, s.text): // so far it is on the screen
		return nil
	case !strings.HasPrefix(s.text, s.shown): // one was lost in midst of a sentence, and this is another
		s.shown = ""
		fmt.Fprintln(s.out, "\n(once more)")
	}
	_, err = io.WriteString(s.out, s.text[len(s.shown):])
	s.shown = s.text
	return err
}
