// Stream answers a question with a text that is read while it is made: a worker writes the
// words of a (fake) language model to the item's output, and whoever asked follows it.
//
//	engine serve &
//	go run ./examples/stream
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Question is what the model is asked.
type Question struct {
	Text string `json:"text"`
}

// Answer is the result: the text itself is the item's output.
type Answer struct {
	Words int `json:"words"`
}

var answer = streamwright.Define[Question, Answer]("answer")

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, c, os.Stdout, 100*time.Millisecond); err != nil {
		log.Fatal(err)
	}
}

// run asks a question, and writes the answer to out as it comes. The model thinks that long
// before each word.
func run(ctx context.Context, c *streamwright.Client, out io.Writer, think time.Duration) error {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return err
	}
	answer.Handle(w, func(ctx context.Context, it *workers.Item[Question]) (a Answer, err error) {
		for word := range model(ctx, it.Params.Text, think) {
			if _, err := fmt.Fprintf(it.Output(), "%s ", word); err != nil {
				return a, err
			}
			a.Words++
		}
		return a, context.Cause(ctx)
	})
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	sub, err := answer.Submit(ctx, c, Question{Text: "why is the sky blue?"})
	if err != nil {
		return err
	}
	shown := false
	err = c.FollowOutput(ctx, sub.ID, 0, func(chunk streamwright.OutputChunk) error {
		if chunk.Reset && shown { // the worker has died, and another one begins anew
			fmt.Fprintln(out, "\n(once more)")
		}
		shown = true
		text, err := chunk.Bytes()
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	a, err := answer.Wait(ctx, c, sub.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%d words\n", a.Words)
	return nil
}

// model makes up words, one after the other, until ctx ends.
func model(ctx context.Context, question string, think time.Duration) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		text := "You ask: " + question + " Because the air scatters blue light more than red."
		for _, word := range strings.Fields(text) {
			select {
			case <-time.After(think):
			case <-ctx.Done():
				return
			}
			if !yield(word) {
				return
			}
		}
	}
}
