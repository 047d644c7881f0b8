// Callback counts the words of a book: one item for each page, all at once, and a
// callback with the results of all of them. A page that fails for good is left out.
//
//	engine serve &
//	go run ./examples/callback
//
// Where the parts are known to the submitter, [streamwright.Batches.Submit]
// does the same without a parent.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Book is a book to count the words of.
type Book struct {
	Pages []string `json:"pages"`
}

// Count is the result for a book.
type Count struct {
	Words   int `json:"words"`
	Skipped int `json:"skipped"` // pages that could not be read
}

var (
	book = streamwright.Define[Book, Count]("count_book")
	page = streamwright.Define[string, int]("count_page")
)

func main() {
	ctx := context.Background()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := run(ctx, c, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c *streamwright.Client, out io.Writer) error {
	w, err := streamwright.NewWorker(c, workers.Config{})
	if err != nil {
		return err
	}
	book.Handle(w, countBook)
	page.Handle(w, countPage)
	if err := w.Start(ctx); err != nil {
		return err
	}
	defer w.Stop(ctx)
	sub, err := book.Submit(ctx, c, Book{Pages: []string{"to be or not to be", "", "that is the question"}})
	if err != nil {
		return err
	}
	count, err := book.Wait(ctx, c, sub.ID)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d words, %d page skipped\n", count.Words, count.Skipped)
	return nil
}

// countBook runs twice: first it hands out the pages, and once all of them have
// ended it runs again, for the continuation.
func countBook(_ context.Context, it *workers.Item[Book]) (Count, error) {
	if it.Continuation == nil {
		var pages []workers.Child
		for _, text := range it.Params.Pages {
			pages = append(pages, page.Child(text))
		}
		return Count{}, workers.Spawn(pages...).Then("add_up").OnFailure(workers.ChildContinue)
	}
	var count Count
	for _, child := range it.Continuation.Children {
		var words int
		if err := child.Decode(&words); err != nil {
			it.Log(workers.LevelWarn, err.Error())
			count.Skipped++
			continue
		}
		count.Words += words
	}
	return count, nil
}

func countPage(_ context.Context, it *workers.Item[string]) (int, error) {
	if it.Params == "" {
		return 0, workers.Permanent(errors.New("the page is empty"))
	}
	return len(strings.Fields(it.Params)), nil
}
