package acceptance

import (
	"context"
	"fmt"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/workers"
)

// With one place for all types, an urgent item goes next, whatever its type, and
// then the others by time.
func TestPriorityAcrossTypes(t *testing.T) {
	r := inMemory(t, "[limits]\nmax_running = 1\n")
	begun, letGo := make(chan string, 100), make(chan struct{})
	types := []string{"a", "b", "c", "d", "e", "f"}
	for _, typ := range types {
		r.worker(workers.Config{Concurrency: 4}, typ, func(_ context.Context, it *workers.RawItem) (any, error) {
			begun <- it.ID.String()
			<-letGo
			return nil, nil
		})
	}
	eventually(t, "the workers are registered", func() bool { return len(must(r.c.Workers().List(r.ctx))(t)) == len(types) })
	first := r.submit(streamwright.Item{Type: "a", Priority: streamwright.Lowest})
	if got := recv(t, "the first run", begun); got != first {
		t.Fatal(got)
	}
	var want []string
	for i := range 16 {
		want = append(want, r.submit(streamwright.Item{Type: types[i*5%6], Priority: streamwright.Lowest}))
	}
	want = append([]string{r.submit(streamwright.Item{Type: "b", Priority: 9})}, want...)
	close(letGo)
	for i, id := range want {
		if got := recv(t, fmt.Sprintf("run %d", i+1), begun); got != id {
			t.Fatalf("run %d is %s, not %s", i+1, got, id)
		}
	}
}
