//go:build unix

package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/workers"
)

// neighbourEnv makes TestNeighbourProcess a client that gives a namespace all it can: it has the way,
// the namespace, and the URL of the engine.
const neighbourEnv = "STREAMWRIGHT_TEST_NEIGHBOUR"

// hostile are the ways in which a namespace may be a burden.
var hostile = []struct {
	name string
	do   func(ctx context.Context, c *streamwright.Client) error
}{
	{"submits", func(ctx context.Context, c *streamwright.Client) error {
		return flood(ctx, c, func(int) streamwright.Item { return streamwright.Item{Type: "x", Params: 1} })
	}},
	{"dedup", func(ctx context.Context, c *streamwright.Client) error {
		return flood(ctx, c, func(i int) streamwright.Item {
			return streamwright.Item{Type: "x", Params: 1, DedupKey: fmt.Sprint("key-of-some-length-", i)}
		})
	}},
	{"params", func(ctx context.Context, c *streamwright.Client) error {
		big := strings.Repeat("x", 400<<10)
		return flood(ctx, c, func(int) streamwright.Item { return streamwright.Item{Type: "x", Params: big} })
	}},
	{"runs", func(ctx context.Context, c *streamwright.Client) error {
		return floodAndWork(ctx, c, func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	}},
	{"poison", func(ctx context.Context, c *streamwright.Client) error {
		return floodAndWork(ctx, c, func(context.Context, *workers.RawItem) (any, error) { return nil, errors.New("no") })
	}},
	{"queries", func(ctx context.Context, c *streamwright.Client) error {
		if err := c.SubmitSeq(ctx, some(50_000), accepted); err != nil {
			return err
		}
		fmt.Println("ready")
		var all errgroup.Group
		for range 8 {
			all.Go(func() error {
				for ctx.Err() == nil {
					if _, err := c.List(ctx, streamwright.Filter{Limit: 1000}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return all.Wait()
	}},
	{"tails", func(ctx context.Context, c *streamwright.Client) error {
		if err := c.SubmitSeq(ctx, some(50_000), accepted); err != nil {
			return err
		}
		fmt.Println("ready")
		var all errgroup.Group
		for range 20 {
			all.Go(func() error {
				enough := errors.New("enough")
				for ctx.Err() == nil {
					n := 0
					err := c.Tail(ctx, streamwright.TailOptions{FromSeq: 1}, func(streamwright.Event) error {
						if n++; n == 50_000 {
							return enough
						}
						return nil
					})
					if !errors.Is(err, enough) {
						return err
					}
				}
				return nil
			})
		}
		return all.Wait()
	}},
}

// accepted takes no notice.
func accepted(streamwright.Submitted) error { return nil }

func some(n int) iter.Seq[streamwright.Item] {
	return func(yield func(streamwright.Item) bool) {
		for range n {
			if !yield(streamwright.Item{Type: "x", Params: 1, Labels: map[string]string{"a": "b"}}) {
				return
			}
		}
	}
}

func flood(ctx context.Context, c *streamwright.Client, item func(i int) streamwright.Item) error {
	fmt.Println("ready")
	var all errgroup.Group
	for k := range 4 {
		all.Go(func() error {
			return c.SubmitSeq(ctx, func(yield func(streamwright.Item) bool) {
				for i := k; ctx.Err() == nil && yield(item(i)); i += 4 {
				}
			}, accepted)
		})
	}
	return all.Wait()
}

func floodAndWork(ctx context.Context, c *streamwright.Client, handle func(context.Context, *workers.RawItem) (any, error)) error {
	w, err := workers.New(c.Conn(), workers.Config{Names: c.Names(), Concurrency: 64})
	if err != nil {
		return err
	}
	workers.HandleRaw(w, "x", handle)
	if err := w.Start(ctx); err != nil {
		return err
	}
	return flood(ctx, c, func(int) streamwright.Item { return streamwright.Item{Type: "x", Params: 1} })
}

func TestNeighbourProcess(t *testing.T) {
	said := strings.Fields(os.Getenv(neighbourEnv))
	for _, h := range hostile {
		if len(said) == 3 && h.name == said[0] {
			nc, err := nats.Connect(said[2])
			if err != nil {
				t.Fatal(err)
			}
			c, err := streamwright.New(nc, streamwright.WithNamespace(said[1]))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("ended:", h.do(context.Background(), c)) // it is killed before
		}
	}
}

// BenchmarkNeighbours measures, in one namespace, the time from a submit to its handler: alone, and
// beside another that is hostile, by a process of its own.
func BenchmarkNeighbours(b *testing.B) {
	for _, h := range hostile {
		b.Run(h.name, func(b *testing.B) {
			e := mustStart(b, Options{Dir: b.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval})
			addNamespaces(b, e, "quiet", "hostile")
			c := inNamespace(b, e, "quiet")
			w, err := workers.New(c.Conn(), workers.Config{Names: c.Names()})
			if err != nil {
				b.Fatal(err)
			}
			began := make(chan time.Time, 1)
			workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) {
				began <- time.Now()
				return nil, nil
			})
			if err := w.Start(testContext(b)); err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := w.Stop(testContext(b)); err != nil {
					b.Error(err)
				}
			}()
			pickups := func() (p50, p99 time.Duration) {
				all := make([]time.Duration, 500)
				for i := range all {
					begun := time.Now()
					if _, err := c.Submit(testContext(b), streamwright.Item{Type: "email", Params: 1}); err != nil {
						b.Fatal(err)
					}
					all[i] = (<-began).Sub(begun)
					time.Sleep(5 * time.Millisecond)
				}
				slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
				return all[len(all)/2], all[len(all)*99/100]
			}
			for b.Loop() {
				pickups()
				alone50, alone99 := pickups()
				end := startNeighbour(b, e, h.name, "hostile")
				time.Sleep(time.Second)
				begun, before := time.Now(), eventsOf(b, e, "hostile")
				beside50, beside99 := pickups()
				rate := (eventsOf(b, e, "hostile") - before) / time.Since(begun).Seconds()
				end()
				b.ReportMetric(rate, "hostile-events/s")
				b.ReportMetric(ms(alone50), "alone-p50-ms")
				b.ReportMetric(ms(alone99), "alone-p99-ms")
				b.ReportMetric(ms(beside50), "beside-p50-ms")
				b.ReportMetric(ms(beside99), "beside-p99-ms")
			}
		})
	}
}

// startNeighbour starts a process that is a burden to a namespace, and returns what ends it.
func startNeighbour(b *testing.B, e *Engine, way, namespace string) (end func()) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestNeighbourProcess$")
	cmd.Env = append(os.Environ(), neighbourEnv+"="+way+" "+namespace+" "+e.URL())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 6))
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Kill()
		if said, _ := io.ReadAll(out); len(said) > 0 {
			b.Errorf("the neighbour has ended: %s", said)
		}
		_ = cmd.Wait()
	}
}

// BenchmarkWeights floods two namespaces alike, and measures how many events each gets done.
func BenchmarkWeights(b *testing.B) {
	for _, weight := range []int{1, 4} {
		b.Run(fmt.Sprint(weight), func(b *testing.B) {
			e := mustStart(b, Options{Dir: b.TempDir(), NATSListen: "127.0.0.1:0", HTTP: config.Off, Durability: config.Interval})
			names := []string{"light", "heavy"}
			addNamespaces(b, e, names...)
			if _, err := inNamespace(b, e, "default").Namespaces().Change(testContext(b), "heavy", streamwright.NamespaceChange{Weight: &weight}); err != nil {
				b.Fatal(err)
			}
			for _, name := range names {
				defer startNeighbour(b, e, "runs", name)()
			}
			for b.Loop() {
				time.Sleep(2 * time.Second)
				begun, light, heavy := time.Now(), eventsOf(b, e, names[0]), eventsOf(b, e, names[1])
				time.Sleep(8 * time.Second)
				light, heavy = eventsOf(b, e, names[0])-light, eventsOf(b, e, names[1])-heavy
				b.ReportMetric((light+heavy)/time.Since(begun).Seconds(), "events/s")
				b.ReportMetric(heavy/light, "heavy/light")
			}
		})
	}
}

// eventsOf returns the number of events that a namespace's log has.
func eventsOf(t testing.TB, e *Engine, name string) float64 {
	meta, err := awaitNamespace(t, e, name).ledger.store.Meta()
	if err != nil {
		t.Fatal(err)
	}
	return float64(meta.Events)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
