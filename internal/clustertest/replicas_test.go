package clustertest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright/embedded/replicas"
	"github.com/streamwright/streamwright/internal/need"
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
			for _, n := range c.natsNodes() {
				c.wholeReplicas(n)
			}
		}
		for _, n := range c.engines() { // which would have replaced it
			if said, err := os.ReadFile(n.log); err != nil || strings.Contains(string(said), damageFound) {
				c.t.Errorf("%s has found a damaged replica: %v", n.name, err)
			}
		}
	})
}

// What a node says when it finds damage, and when it finds it gone.
const (
	damageFound = "replica of a stream is damaged"
	damageGone  = "replica of a stream is whole again"
)

// The replica of the node that owns and leads the log is damaged. That is found when the node reads
// its replicas again, a minute after its start; it hands the log over, and has it replaced while
// work goes on. Then all replicas are whole.
func TestDamagedReplica(t *testing.T) {
	eachOn(t, disks{synced: true}, func(c *cluster, l *load) {
		if !c.own {
			return // its servers are not the engines'
		}
		n, began := c.owner(), time.Now()
		c.damage(n, "WORK_EVENTS_0")
		need.Eventually(c.t, "the damage is found, and gone", func() bool {
			said, err := os.ReadFile(n.log)
			if err != nil {
				c.t.Fatal(err)
			}
			_, after, found := strings.Cut(string(said), damageFound+`" stream=WORK_EVENTS_0`)
			return found && strings.Contains(after, damageGone+`" stream=WORK_EVENTS_0`)
		})
		c.t.Logf("the replica of %s is whole %s after it was damaged", n.name, time.Since(began).Round(time.Millisecond))
		l.moves(100)
		for _, n := range c.natsNodes() {
			c.wholeReplicas(n)
		}
	})
}

// damage writes a hole of zeros to the first block of a node's replica of a stream. When a server
// starts it finds such a hole itself, often, and mends it.
func (c *cluster) damage(n *node, stream string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("%s has no blocks of %s: %v", n.name, stream, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(make([]byte, 1000), info.Size()/3)
	}
	if err != nil {
		c.t.Fatal(err)
	}
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
