package wire

import (
	"testing"

	"github.com/streamwright/streamwright/events"
)

// A lane's names in one life are none of another's, nor of a server of its own.
func TestNamesOfALife(t *testing.T) {
	lives := []Life{"", "hn1z", "hn20"}
	for _, lane := range []string{"", "gpu", "arm_gpu"} {
		seen := map[string]bool{}
		for _, life := range lives {
			subject, name := life.Run(Default, "e-mail", lane), life.Consumer("e-mail", lane)
			if seen[subject] || seen[name] {
				t.Errorf("life %q, lane %q: %s and %s are another life's too", life, lane, subject, name)
			}
			seen[subject], seen[name] = true, true
			for _, other := range lives {
				typ, of, ok := other.ParseConsumer(name)
				if ok != (other == life) {
					t.Errorf("life %q takes the consumer %s of life %q for its own: %v", other, name, life, ok)
				}
				if ok && (typ != events.Type("e-mail") || of != lane) {
					t.Errorf("%s is parsed as type %s, lane %q", name, typ, of)
				}
			}
		}
	}
}
