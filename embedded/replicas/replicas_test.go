package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/eventlog/blocks"
	"github.com/streamwright/streamwright/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Check(m) }

// start starts a server in a folder.
func start(t *testing.T, dir string) (*natsserver.Server, jetstream.JetStream) {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(s, nc) })
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return s, js
}

func stop(s *natsserver.Server, nc *nats.Conn) {
	nc.Close()
	s.Shutdown()
	s.WaitForShutdown()
}

const stream = "WORK_EVENTS_0"

// message is the content of one of size bytes, which compresses well.
func message(seq, size int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "%08d ", seq), size/9)
}

// fill makes a stream of n messages, some with headers.
func fill(t *testing.T, js jetstream.JetStream, conf jetstream.StreamConfig, n, size int) {
	t.Helper()
	conf.Name, conf.Subjects = stream, []string{"e.>"}
	if _, err := js.CreateStream(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m := nats.NewMsg(fmt.Sprintf("e.%d", i%7))
		m.Data = message(i+1, size)
		if i%3 == 0 {
			m.Header.Set("Some", "header")
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

func folder(dir string) string { return filepath.Join(dir, "jetstream", "$G", "streams", stream) }

func read(t *testing.T, dir string, gapless bool, state func() (State, bool)) Replica {
	t.Helper()
	r, err := Reader{Dir: folder(dir), Stream: stream, Gapless: gapless, State: state}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func serverState(js jetstream.JetStream) func() (State, bool) {
	return func() (State, bool) {
		s, err := js.Stream(context.Background(), stream)
		if err != nil {
			return State{}, false
		}
		st := s.CachedInfo().State
		return State{First: st.FirstSeq, Last: st.LastSeq, Messages: st.Msgs}, true
	}
}

// A replica as the server writes it is whole, whatever was deleted, while the server runs and after it.
func TestWhole(t *testing.T) {
	for name, conf := range map[string]jetstream.StreamConfig{
		"log":        {},
		"compressed": {Compression: jetstream.S2Compression},
		"bucket":     {MaxMsgsPerSubject: 2, Discard: jetstream.DiscardOld},
		"limited":    {MaxMsgs: 900, Discard: jetstream.DiscardOld},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, js := start(t, dir)
			fill(t, js, conf, 1000, 20_000)
			gapless := name != "bucket"
			if r := read(t, dir, gapless, serverState(js)); r.Damage != "" || r.Messages < 14 || r.Blocks == 0 || (r.Compressed > 0) != (name == "compressed") {
				t.Errorf("before deletes: %+v", r)
			}
			st, err := js.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			last := uint64(1000)
			if !gapless {
				for _, seq := range []uint64{996, 997} {
					if err := st.DeleteMsg(t.Context(), seq); err != nil {
						t.Fatal(err)
					}
				}
			} else if err := st.Purge(t.Context(), jetstream.WithPurgeSequence(500)); err != nil {
				t.Fatal(err)
			}
			if r := read(t, dir, gapless, serverState(js)); r.Damage != "" {
				t.Errorf("after deletes: %+v", r)
			}
			stop(s, js.Conn())
			if r := read(t, dir, false, nil); r.Damage != "" {
				t.Errorf("after the server: %+v", r)
			}
			_, js = start(t, dir)
			if r := read(t, dir, gapless, serverState(js)); r.Damage != "" {
				t.Errorf("after its restart: %+v, %d", r, last)
			}
		})
	}
}

// Whatever is wrong with a file is found, also while the server runs, and says where.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	s, js := start(t, dir)
	fill(t, js, jetstream.StreamConfig{}, 1000, 20_000)
	state, _ := serverState(js)()
	stop(s, js.Conn())
	known := func() (State, bool) { return state, true }
	file := func(n int) string { return filepath.Join(folder(dir), "msgs", fmt.Sprintf("%d.blk", n)) }
	for name, c := range map[string]struct {
		block  int
		change func(b []byte) []byte
		says   string
	}{
		"a hole of zeros":     {1, func(b []byte) []byte { clear(b[3<<20 : 3<<20+4096]); return b }, "block 1: "},
		"a flipped bit":       {2, func(b []byte) []byte { b[4<<20] ^= 1; return b }, "block 2: a record has another hash"},
		"a flipped length":    {2, func(b []byte) []byte { b[2] ^= 1; return b }, "block 2: "},
		"cut amid a record":   {1, func(b []byte) []byte { return b[:len(b)/2+7] }, "block 1: a record is cut off"},
		"cut between records": {1, func(b []byte) []byte { return b[:firstRecords(b, 10)] }, "messages 11 to "},
		"nothing is left":     {2, func([]byte) []byte { return nil }, "messages "},
		"the end is gone":     {3, func(b []byte) []byte { return b[:firstRecords(b, 5)] }, "messages "},
		"a compressed beginning": {1, func(b []byte) []byte {
			packed, err := natsserver.S2Compression.Compress(bytes.Clone(b[:1<<20]))
			if err != nil {
				t.Fatal(err)
			}
			head := natsserver.CompressionInfo{Algorithm: natsserver.S2Compression, OriginalSize: 1 << 20}
			packed = append(head.MarshalMetadata(), packed...)
			clear(b[:1<<20])
			copy(b, packed)
			return b
		}, "block 1: it is compressed, and can't be decompressed"},
	} {
		t.Run(name, func(t *testing.T) {
			old, err := os.ReadFile(file(c.block))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { write(t, file(c.block), old) }()
			write(t, file(c.block), c.change(bytes.Clone(old)))
			r, err := Reader{Dir: folder(dir), Stream: stream, Gapless: true, State: known}.once(t.Context())
			if err != nil || !strings.HasPrefix(r.Damage, c.says) {
				t.Errorf("%q, %v: want %q", r.Damage, err, c.says)
			}
			if strings.HasPrefix(c.says, "messages") { // of a stream with deletes they are counted
				r, err := Reader{Dir: folder(dir), Stream: stream, State: known}.once(t.Context())
				if err != nil || !strings.Contains(r.Damage, "of 1000 messages are missing") {
					t.Errorf("counted: %q, %v", r.Damage, err)
				}
			}
		})
	}
	if err := os.Remove(file(2)); err != nil {
		t.Fatal(err)
	}
	if r := read(t, dir, true, known); !strings.HasPrefix(r.Damage, "messages ") {
		t.Errorf("a file that is gone: %+v", r)
	}
	if r, err := (Reader{Dir: folder(dir), Stream: stream, Gapless: true, State: func() (State, bool) { return State{First: 1, Last: 1000, Lost: 3}, true }}).once(t.Context()); err != nil || !strings.Contains(r.Damage, "lost 3 messages") && !strings.HasPrefix(r.Damage, "messages") {
		t.Errorf("what the server lost: %+v, %v", r, err)
	}
}

// What is found once, or elsewhere each time, is the server that writes, and no damage.
func TestFoundTwice(t *testing.T) {
	dir := t.TempDir()
	s, js := start(t, dir)
	fill(t, js, jetstream.StreamConfig{}, 100, 20_000)
	state, _ := serverState(js)()
	stop(s, js.Conn())
	file := filepath.Join(folder(dir), "msgs", "1.blk")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		holes   []int // records that are broken at the reads of the replica, one each; 0: none
		damaged bool
	}{
		"once":           {[]int{7, 0}, false},
		"elsewhere":      {[]int{7, 8, 9, 10, 11}, false},
		"twice":          {[]int{7, 7}, true},
		"twice, at last": {[]int{7, 8, 8}, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			r, err := Reader{Dir: folder(dir), Stream: stream, Gapless: true, State: func() (State, bool) {
				if asked++; asked%2 == 1 { // before each read
					b := bytes.Clone(whole)
					if n := c.holes[min(asked/2, len(c.holes)-1)]; n > 0 {
						clear(b[firstRecords(b, n):][:4096])
					}
					write(t, file, b)
				}
				return state, true
			}}.Read(t.Context())
			if err != nil || (r.Damage != "") != c.damaged || asked != 2*len(c.holes) {
				t.Errorf("%+v, %v after %d reads", r, err, asked/2)
			}
		})
	}
}

// firstRecords returns where the first n records of a block end.
func firstRecords(b []byte, n int) (at int) {
	for range n {
		at += int(uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3]&0x7f)<<24)
	}
	return at
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A reader keeps its pace, and ends with its context.
func TestPace(t *testing.T) {
	dir := t.TempDir()
	s, js := start(t, dir)
	fill(t, js, jetstream.StreamConfig{}, 100, 20_000)
	stop(s, js.Conn())
	r, err := Reader{Dir: folder(dir), Stream: stream, Rate: 20 << 20}.Read(t.Context())
	if err != nil || r.Took < time.Duration(r.Bytes)*time.Second/(20<<20) || r.Bytes < 1_900_000 {
		t.Errorf("%d bytes in %s, %v", r.Bytes, r.Took, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := (Reader{Dir: folder(dir), Stream: stream, Rate: 1}).Read(ctx); err == nil {
		t.Error("it was not ended")
	}
}

// Blocks are read into the same memory, which grows with them.
func TestBlocksShareMemory(t *testing.T) {
	r := Reader{Dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(r.Dir, "msgs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, data := range []string{"some bytes", "fewer", "more than some bytes"} {
		if err := os.WriteFile(blocks.File(r.Dir, uint32(i)), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b []byte
	for i, want := range []string{"some bytes", "fewer", "more than some bytes"} {
		old := b
		var err error
		b, err = r.block(t.Context(), uint32(i), b)
		if err != nil || string(b) != want {
			t.Fatalf("block %d is %q: %v", i, b, err)
		}
		if cap(old) >= len(b) && &old[:1][0] != &b[0] {
			t.Errorf("block %d has memory of its own", i)
		}
	}
	if kept, err := r.block(t.Context(), 9, b); !errors.Is(err, fs.ErrNotExist) || cap(kept) != cap(b) {
		t.Errorf("a block that is gone: %v", err)
	}
}
