// Web is a web service whose slow work runs in the background. It submits and
// handles the work in one process; run several, and they share it.
//
//	engine serve &
//	go run ./examples/web
//	curl -d '{"text":"to be or not to be"}' http://127.0.0.1:8080/counts
//	curl http://127.0.0.1:8080/counts/ID
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// Text is a text to count the words of.
type Text struct {
	Text string `json:"text"`
}

// Count is the result.
type Count struct {
	Words int `json:"words"`
}

var count = streamwright.Define[Text, Count]("count_words", func(it *streamwright.Item) {
	it.MaxAttempts = 5
	it.Timeout = time.Minute
})

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := streamwright.Connect(ctx, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w, err := startWorker(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: routes(c), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
	// Lets what runs finish.
	if err := w.Stop(context.Background()); err != nil {
		log.Print(err)
	}
}

func startWorker(ctx context.Context, c *streamwright.Client) (*workers.Worker, error) {
	w, err := streamwright.NewWorker(c, workers.Config{Concurrency: 4})
	if err != nil {
		return nil, err
	}
	count.Handle(w, func(_ context.Context, it *workers.Item[Text]) (Count, error) {
		return Count{len(strings.Fields(it.Params.Text))}, nil
	})
	return w, w.Start(ctx)
}

func routes(c *streamwright.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /counts", func(rw http.ResponseWriter, r *http.Request) {
		var text Text
		if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, 1<<20)).Decode(&text); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		// A client that repeats its request with the same key gets the same item.
		sub, err := count.Submit(r.Context(), c, text, func(it *streamwright.Item) {
			it.IdempotencyKey = r.Header.Get("Idempotency-Key")
		})
		switch {
		case errors.Is(err, streamwright.ErrQueueFull):
			http.Error(rw, "too much to do: try again later", http.StatusServiceUnavailable)
		case err != nil:
			http.Error(rw, err.Error(), http.StatusBadGateway)
		default:
			rw.Header().Set("Location", "/counts/"+sub.ID)
			rw.WriteHeader(http.StatusAccepted)
			_ = json.NewEncoder(rw).Encode(map[string]string{"id": sub.ID})
		}
	})
	mux.HandleFunc("GET /counts/{id}", func(rw http.ResponseWriter, r *http.Request) {
		item, err := c.Get(r.Context(), r.PathValue("id"))
		switch {
		case errors.Is(err, streamwright.ErrNotFound):
			http.NotFound(rw, r)
		case err != nil:
			http.Error(rw, err.Error(), http.StatusBadGateway)
		case item.State != streamwright.StateCompleted:
			_ = json.NewEncoder(rw).Encode(map[string]any{"state": item.State})
		default:
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(item.Result)
		}
	})
	return mux
}
