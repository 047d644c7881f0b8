package clustertest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/streamwright/streamwright/embedded/replicas"
)

// kills is how often the owner is killed: CLUSTERTEST_KILLS, or three times.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("CLUSTERTEST_KILLS")); err == nil {
		return n
	}
	return 3
}

// A node that was killed comes back with whole replicas: no block of any stream on any node has
// a hole, and none is compressed, since the server might do that while it appends to it. It
// does so at a return that truncates the stream, which is one with synced writes.
func TestKilledOwnersReplicas(t *testing.T) {
	eachOn(t, disks{synced: true}, func(c *cluster, l *load) {
		for range kills() {
			owner := c.leader()
			owner.kill()
			l.moves(200)
			owner.start()
			l.moves(200)
			c.wholeReplicas(owner)
		}
		for _, n := range c.natsNodes() {
			c.wholeReplicas(n)
		}
	})
}

// wholeReplicas reads all replicas of a node.
func (c *cluster) wholeReplicas(n *node) {
	c.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(n.dir, "jetstream", "*", "streams", "*"))
	if err != nil || len(dirs) == 0 {
		c.t.Fatalf("%s has no streams: %v", n.name, err)
	}
	for _, dir := range dirs {
		stream := filepath.Base(dir)
		found, err := replicas.Reader{Dir: dir, Stream: stream, Gapless: strings.Contains(stream, "_EVENTS_")}.Read(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		if found.Damage != "" {
			c.t.Errorf("%s: its replica of %s is damaged: %s", n.name, stream, found.Damage)
		}
		if found.Compressed > 0 {
			c.t.Errorf("%s: %d blocks of %s are compressed", n.name, found.Compressed, stream)
		}
	}
}
