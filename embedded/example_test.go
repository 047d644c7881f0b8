package embedded_test

import (
	"context"
	"fmt"
	"log"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
)

// A whole engine in memory, for the test of a program that submits work. Many
// can run at once; each takes some 10 ms to start.
func ExampleStart() {
	ctx := context.Background()
	engine, err := embedded.Start(ctx, embedded.Options{Memory: true})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Stop(ctx)

	client, err := engine.Client(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	done, err := client.Submit(ctx, streamwright.Item{
		Type: "email", Params: map[string]string{"to": "someone@example.org"}, DedupKey: "invoice 7",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.State)
	// Output: queued
}
