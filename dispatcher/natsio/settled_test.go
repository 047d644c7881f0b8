package natsio

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What a stream lacks is believed of a lone server, and of a leader that has led for a while.
func TestSettled(t *testing.T) {
	now := time.Now()
	since := func(ago time.Duration) *time.Time { at := now.Add(-ago); return &at }
	others := []*jetstream.PeerInfo{{Name: "b"}, {Name: "c"}}
	for name, tc := range map[string]struct {
		cluster *jetstream.ClusterInfo
		want    bool
	}{
		"no cluster":        {nil, true},
		"one replica":       {&jetstream.ClusterInfo{Leader: "a"}, true},
		"no leader":         {&jetstream.ClusterInfo{Replicas: others}, false},
		"not by the leader": {&jetstream.ClusterInfo{Leader: "b", Replicas: others}, false},
		"a new leader":      {&jetstream.ClusterInfo{Leader: "a", Replicas: others, LeaderSince: since(newLeader / 2)}, false},
		"a leader":          {&jetstream.ClusterInfo{Leader: "a", Replicas: others, LeaderSince: since(newLeader)}, true},
	} {
		if got := settled(&jetstream.StreamInfo{TimeStamp: now, Cluster: tc.cluster}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
