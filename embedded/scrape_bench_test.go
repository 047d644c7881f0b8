//go:build unix

package embedded

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/events"
)

// BenchmarkScrape is what one scrape of /metrics costs the engine, with many items
// that wait, spread over types and five priorities of each.
func BenchmarkScrape(b *testing.B) {
	for _, c := range []struct{ types, items int }{{1, 1000}, {100, 100_000}, {events.MaxTypes, 100_000}} {
		b.Run(fmt.Sprintf("types=%d/items=%d", c.types, c.items), func(b *testing.B) {
			e, err := Start(b.Context(), Options{Memory: true, HTTP: "127.0.0.1:0"})
			if err != nil {
				b.Fatal(err)
			}
			defer stopEngine(b, e)
			client, err := e.Client(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			list := make([]streamwright.Item, c.items)
			for i := range list {
				list[i] = streamwright.Item{Type: "type" + strconv.Itoa(i%c.types), Priority: 1 + i/c.types%5}
			}
			if _, err := client.SubmitMany(b.Context(), list); err != nil {
				b.Fatal(err)
			}
			size, series := 0, 0
			before := cpu(b)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := http.Get("http://" + e.HTTP() + "/metrics")
				if err != nil {
					b.Fatal(err)
				}
				page, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				size, series = len(page), bytes.Count(page, []byte("\nstreamwright_"))
			}
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/float64(b.N), "cpu-ms/scrape")
			b.ReportMetric(float64(size)/1024, "KiB")
			b.ReportMetric(float64(series), "series")
		})
	}
}
