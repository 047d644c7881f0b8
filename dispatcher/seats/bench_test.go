package seats

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/streamwright/streamwright/events"
)

func BenchmarkChoose(b *testing.B) {
	for _, by := range []string{"", events.AssignRoundRobin, events.PerTenant, events.PerLabel + "customer"} {
		for _, n := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("%s/%d", cmp.Or(by, events.AssignMostFree), n), func(b *testing.B) {
				s, it := New(), &events.Item{Tenant: "acme", Labels: map[string]string{"customer": "acme"}}
				s.Set(workers(n, 8), noRuns)
				for b.Loop() {
					if s.Choose(email, by, it) == nil {
						b.Fatal("none")
					}
				}
			})
		}
	}
}
