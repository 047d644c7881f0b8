package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/embedded"
)

// An engine in memory, as the tests of a program start it: nothing listens,
// nothing is left behind, and many can run side by side in one process.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
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
	for range 2 {
		sub, err := client.Submit(ctx, streamwright.Item{Type: "email", DedupKey: "welcome-ada"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(sub.State)
	}
	// Output:
	// queued
	// merged
}

// An engine inside a program, with its data in a folder and its NATS server
// for other programs to connect to.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "example-") // keep it, in a program
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	engine, err := embedded.Start(ctx, embedded.Options{Dir: dir, NATSListen: "127.0.0.1:0", HTTP: "off"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listens:", engine.URL() != "", "durability:", engine.Durability())
	stop, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := errors.Join(engine.Stop(stop), os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
	// Output: listens: true durability: always
}
