package embedded

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
)

// BenchmarkNamespaces starts idle namespaces, and then submits in the default one: what each
// takes, and how the busy one does beside them.
func BenchmarkNamespaces(b *testing.B) {
	for _, n := range []int{0, 20, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := Options{Dir: b.TempDir(), NATSListen: config.Off, HTTP: "127.0.0.1:0", Durability: config.Interval}
			e := mustStart(b, o)
			for i := range n {
				if err := e.decider.decide(testContext(b), core.SetNamespace{Name: events.Namespace(fmt.Sprintf("n%d", i)), Source: events.SourceAPI}); err != nil {
					b.Fatal(err)
				}
			}
			await := func() {
				need.Eventually(b, "all run", func() bool {
					for i := range n {
						t := e.spaces.get(events.Namespace(fmt.Sprintf("n%d", i)))
						if t == nil {
							return false
						}
						if s, _ := t.now(); s == nil {
							return false
						}
					}
					return true
				})
			}
			await()
			stopEngine(b, e)
			before := memory()
			begun := time.Now()
			e = mustStart(b, o)
			await()
			took, grown := time.Since(begun), memory()-before
			c := inNamespace(b, e, "default")
			b.ResetTimer()
			for range b.N {
				if _, err := c.Submit(testContext(b), streamwright.Item{Type: "email", Params: 1}); err != nil {
					b.Fatal(err)
				}
			}
			if n > 0 {
				b.ReportMetric(took.Seconds(), "s/start")
				b.ReportMetric(grown/float64(n)/(1<<20), "MiB/namespace")
			}
		})
	}
}

// memory returns the bytes that the process uses.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
