package embedded

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/projector"
	"github.com/streamwright/streamwright/wire"
)

func rss() int {
	runtime.GC()
	b, _ := os.ReadFile("/proc/self/status")
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "VmRSS") {
			var n int
			fmt.Sscanf(strings.TrimPrefix(l, "VmRSS:"), "%d", &n)
			return n / 1024
		}
	}
	return 0
}

func TestScratch(t *testing.T) {
	n := 1
	if v := os.Getenv("NSN"); v != "" {
		fmt.Sscan(v, &n)
	}
	e, err := Start(t.Context(), Options{Dir: t.TempDir(), NATSListen: "off", HTTP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("rss before", rss(), "goroutines", runtime.NumGoroutine())
	for i := range n {
		projector.StubNamespaces = append(projector.StubNamespaces, events.NamespaceInfo{Name: events.Namespace(fmt.Sprintf("acme-%d", i))})
	}
	begun := time.Now()
	e.spaces.changed()
	need.Eventually(t, "all run", func() bool {
		for i := range n {
			tn := e.spaces.get(events.Namespace(fmt.Sprintf("acme-%d", i)))
			if tn == nil {
				return false
			}
			if s, _ := tn.now(); s == nil {
				return false
			}
		}
		return true
	})
	fmt.Println("all in", time.Since(begun))
	time.Sleep(3 * time.Second)
	fmt.Println("rss after", rss(), "goroutines", runtime.NumGoroutine())
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("heap", m.HeapInuse>>20, "stacks", m.StackInuse>>20)
	if n == 1 {
		nc, err := e.Connect()
		if err != nil {
			t.Fatal(err)
		}
		c, err := streamwright.New(nc, streamwright.WithPrefix("work-acme-0"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Submit(context.Background(), streamwright.Item{Type: "email", Params: map[string]int{"a": 1}})
		fmt.Println(h, err)
		js, _ := jetstream.New(e.nc)
		for s := range js.ListStreams(t.Context()).Info() {
			fmt.Println(s.Config.Name, s.State.Msgs)
		}
		for _, p := range []string{"/ns/acme-0/api/v1/stats", "/ns/default/api/v1/stats", "/ns/nobody/api/v1/stats", "/ns/acme-0/metrics", "/ns/acme-0", "/ns/acme-0/readyz"} {
			r, err := http.Get(e.HTTPURL() + p)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r.Body)
			fmt.Println(p, r.Status, string(b[:min(len(b), 300)]))
		}
	}
	if f := os.Getenv("CPUIDLE"); f != "" {
		before := cpuNow()
		pf, _ := os.Create("/tmp/w/idle.out"); pprof.StartCPUProfile(pf); time.Sleep(20 * time.Second); pprof.StopCPUProfile()
		fmt.Println("cpu idle 10 s", cpuNow()-before)
	}
	_ = wire.Default
	begun = time.Now()
	if err := e.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	fmt.Println("stopped in", time.Since(begun))
}

func cpuNow() time.Duration {
	b, _ := os.ReadFile("/proc/self/stat")
	f := strings.Fields(string(b))
	var u, s int
	fmt.Sscan(f[13], &u)
	fmt.Sscan(f[14], &s)
	return time.Duration(u+s) * 10 * time.Millisecond
}
