package embedded

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/streamwright/streamwright"
)

// A folder whose blocks an earlier engine had compressed is brought over at the start, and
// refused if a block can't be decompressed.
func TestCompressedFolder(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, NATSListen: "off", HTTP: "off", Durability: "interval"}
	work := func(do func(c *streamwright.Client)) error {
		e, err := Start(testContext(t), o)
		if err != nil {
			return err
		}
		c, err := e.Client(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		do(c)
		c.Close()
		return e.Stop(context.Background())
	}
	var id string
	err := work(func(c *streamwright.Client) {
		h, err := c.Submit(testContext(t), streamwright.Item{Type: "email", Params: []byte(`{"a":"` + strings.Repeat("b", 10_000) + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		id = h.ID
	})
	if err != nil {
		t.Fatal(err)
	}

	block := filepath.Join(dir, "jetstream", "WORK", "streams", "WORK_EVENTS_0", "msgs", "1.blk")
	plain, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := natsserver.S2Compression.Compress(plain)
	if err != nil {
		t.Fatal(err)
	}
	head := natsserver.CompressionInfo{Algorithm: natsserver.S2Compression, OriginalSize: uint64(len(plain))}
	packed = append(head.MarshalMetadata(), packed...)
	if err := os.WriteFile(block, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	err = work(func(c *streamwright.Client) {
		if item, err := c.Get(testContext(t), id); err != nil || item.ID != id {
			t.Errorf("the item: %v, %v", item, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(block); err != nil || !bytes.HasPrefix(now, plain) {
		t.Errorf("the block is not what it was before it was compressed, and more: %v", err)
	}

	clear(packed[len(packed)/2 : len(packed)-8])
	if err := os.WriteFile(block, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	err = work(func(*streamwright.Client) {})
	if err == nil || !strings.Contains(err.Error(), "1.blk") || !strings.Contains(err.Error(), "upgrade those first") || !strings.Contains(err.Error(), "engine restore") {
		t.Errorf("a block that can't be decompressed: %v", err)
	}
}
