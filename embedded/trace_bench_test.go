//go:build unix

package embedded

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/internal/telemetry"
	"github.com/streamwright/streamwright/workers"
)

// receiverEnv makes TestReceiverProcess an OTLP receiver that takes all and keeps
// nothing: a process of its own, whose CPU is not counted.
const receiverEnv = "STREAMWRIGHT_TEST_OTLP_RECEIVER"

func TestReceiverProcess(t *testing.T) {
	if os.Getenv(receiverEnv) == "" {
		return // it is a part of BenchmarkTracing
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	t.Fatal(http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })))
}

func startReceiver(b *testing.B) (url string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReceiverProcess$")
	cmd.Env = append(os.Environ(), receiverEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// flow submits b.N items one by one, from 16 goroutines, and has them done.
func flow(b *testing.B, e *Engine) {
	b.Helper()
	c, err := e.Client(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	nc, err := e.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	w, err := workers.New(nc, workers.Config{Concurrency: 64, Names: e.names()})
	if err != nil {
		b.Fatal(err)
	}
	workers.HandleRaw(w, "email", func(context.Context, *workers.RawItem) (any, error) { return nil, nil })
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	var left atomic.Int64
	left.Store(int64(b.N))
	var group errgroup.Group
	for range 16 {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				if _, err := c.Submit(b.Context(), streamwright.Item{Type: "email", Params: []byte(`{"to":"somebody"}`)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	for {
		stats, err := c.Engine().Stats(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if stats.States["completed"] == int64(b.N) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "cpu-µs/item")
	if err := w.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// cpu is what this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTracing is an item from its submission to its end (client, engine and
// worker in this process), with traces off, of all items, and of one in a hundred.
// Read cpu-µs/item: the CPU of the process, of which the wall time is not a
// measure on a busy machine.
func BenchmarkTracing(b *testing.B) {
	receiver := startReceiver(b)
	for _, c := range []struct{ name, endpoint, sampler, arg string }{
		{"off", "", "", ""},
		{"all", receiver, "parentbased_always_on", ""},
		{"hundredth", receiver, "parentbased_traceidratio", "0.01"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.endpoint)
			b.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			b.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
			o := Options{Memory: true}
			tp, err := telemetry.Provider(b.Context(), "bench", "1")
			if err != nil {
				b.Fatal(err)
			}
			if tp != nil {
				o.Tracing = tp
				otel.SetTracerProvider(tp)
				defer otel.SetTracerProvider(noop.NewTracerProvider())
			}
			e, err := Start(b.Context(), o)
			if err != nil {
				b.Fatal(err)
			}
			flow(b, e)
			if err := e.Stop(context.Background()); err != nil {
				b.Fatal(err)
			}
			if tp == nil {
				return
			}
			if err := tp.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
			n := tp.SpanCounts()
			b.ReportMetric(float64(n.Sent)/float64(b.N), "spans/item")
			b.ReportMetric(float64(n.Dropped+n.Failed)/float64(b.N), "lost/item")
		})
	}
}
