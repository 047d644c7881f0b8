package natsio

import (
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/dispatcher/table"
	"github.com/streamwright/streamwright/events"
)

func TestHeaderOfAMessage(t *testing.T) {
	p := &Pusher{cfg: &Config{Traceparent: func(it *events.Item, _ events.Token) string { return it.Labels["trace"] }}}
	d := &table.Dispatch{Token: events.NewToken(1, 7), Lease: 30 * time.Second}
	for _, c := range []struct {
		it   events.Item
		want nats.Header
	}{
		{events.Item{ID: events.ID{1}, Type: "email", Timeout: time.Minute, Attempt: 2}, nats.Header{"Work-Type": {"email"}, "Work-Attempt": {"3"}, "Work-Deadline": {"1m0s"}}},
		{events.Item{ID: events.ID{2}, Type: "resize", Trace: "t1"}, nats.Header{"Work-Type": {"resize"}, "Work-Attempt": {"1"}, "Work-Deadline": {"0s"}, "traceparent": {"t1"}}},
		{
			events.Item{ID: events.ID{3}, Type: "resize", Labels: map[string]string{"trace": "t2"}, Trace: "t1"},
			nats.Header{"Work-Type": {"resize"}, "Work-Attempt": {"1"}, "Work-Deadline": {"0s"}, "traceparent": {"t2"}, "Work-Labels": {"trace=t2"}},
		},
	} {
		c.want["Work-Id"], c.want["Work-Token"], c.want["Work-Lease"] = []string{c.it.ID.String()}, []string{d.Token.String()}, []string{"30s"}
		if got := p.header(d, &c.it); !reflect.DeepEqual(got, c.want) {
			t.Errorf("have %v, want %v", got, c.want)
		}
	}
}
