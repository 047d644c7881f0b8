package embedded

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What a server says of the others is worth something only if it leads the stream, or
// asks who does.
func TestReplicas(t *testing.T) {
	gone := &jetstream.PeerInfo{Name: "n2", Active: time.Minute, Current: true}
	here := &jetstream.PeerInfo{Name: "n3", Active: time.Second, Current: true}
	silent := &jetstream.PeerInfo{Name: "n2"} // died before this leader was elected
	for name, c := range map[string]struct {
		cluster *jetstream.ClusterInfo
		behind  []string
		spare   int
	}{
		"all are there":   {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{here, here}}, nil, 1},
		"one is gone":     {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{gone, here}}, []string{"n2"}, 0},
		"one is silent":   {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{silent, here}}, []string{"n2"}, 0},
		"two are gone":    {&jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{gone, gone}}, []string{"n2", "n2"}, -1},
		"nobody leads it": {&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{here, here, here}}, nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := replicasIn(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "S", Replicas: 3}, Cluster: c.cluster})
			if r.Spare != c.spare || !slices.Equal(r.Behind, c.behind) {
				t.Errorf("it is %+v", r)
			}
		})
	}
	if r := replicasIn(&jetstream.StreamInfo{}); r != nil {
		t.Errorf("a single server: %+v", r)
	}
}
