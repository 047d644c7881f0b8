package projector

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamwright/streamwright/internal/need"
)

// A store whose disk is full waits, and goes on when there is room. It loses
// nothing and does not end the process.
func TestFullDiskWaits(t *testing.T) {
	disk := need.SmallDisk(t, 32<<20)
	live, err := Open(filepath.Join(disk.Dir, "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	live.opts.disk.tick = time.Millisecond
	s := newSim(t, 2, live)
	s.run(2000, 50)
	disk.Fill(t, 0)
	flushed := make(chan error, 1)
	go func() { flushed <- live.Flush() }()
	for !live.opts.disk.waiting() {
		select {
		case err := <-flushed:
			t.Fatalf("flushed on a full disk: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	s.run(500, 50) // commits go on in memory
	disk.Free(t)
	if err := <-flushed; err != nil {
		t.Fatal(err)
	}
	same(t, live, replayed(t, s.log, s.log.last()))
}

// Close does not wait for room for ever, and leaves a folder that opens again.
func TestCloseOnFullDisk(t *testing.T) {
	slow(t)
	disk := need.SmallDisk(t, 32<<20)
	folder := filepath.Join(disk.Dir, "store")
	live, err := Open(folder, Options{})
	if err != nil {
		t.Fatal(err)
	}
	live.opts.disk.tick = time.Millisecond
	s := newSim(t, 2, live)
	s.run(2000, 50)
	disk.Fill(t, 0)
	if err := live.Close(); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("closed on a full disk: %v", err)
	}
	disk.Free(t)
	var again *Store
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if again, err = Open(folder, Options{}); !errors.Is(err, ErrInUse) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	catchUp(t, again, s.log, s.log.last())
	same(t, again, replayed(t, s.log, s.log.last()))
}
