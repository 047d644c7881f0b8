package eventlog_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/eventlog/logtest"
	"github.com/streamwright/streamwright/events"
)

// A power cut leaves a part of the last frame on disk, in one of these ways: the log ends
// with the frame before it, and goes on there.
func TestPowerCutInAnAppend(t *testing.T) {
	for name, damage := range map[string]func(file *os.File, size int64) error{
		"cut short":    func(f *os.File, size int64) error { return f.Truncate(size - 100) },
		"end is zeros": func(f *os.File, size int64) error { _, err := f.WriteAt(make([]byte, 100), size-100); return err },
		"all zeros": func(f *os.File, size int64) error {
			const frame = 3000 // less than the last has
			_, err := f.WriteAt(make([]byte, frame), size-frame)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := startServer(t, dir, nil)
			l := openLog(t, Config{Connect: inProcess(s)})
			last := uint64(0)
			for range 10 {
				w := logtest.Write(logtest.Decision(20, "a"))
				w.Before = 20 * last
				if _, err := l.Append(logtest.Context(t), last, w); err != nil {
					t.Fatal(err)
				}
				last++
			}
			stream := filepath.Join(s.StoreDir(), "$G", "streams", "WORK_EVENTS_0", "msgs")
			stopServer(s)
			blocks, err := filepath.Glob(filepath.Join(stream, "*.blk"))
			if err != nil || len(blocks) != 1 {
				t.Fatalf("the stream has the blocks %v, %v; want one", blocks, err)
			}
			if err := os.Remove(filepath.Join(stream, "index.db")); err != nil { // it was not written yet
				t.Fatal(err)
			}
			file, err := os.OpenFile(blocks[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := file.Stat()
			if err == nil {
				err = damage(file, info.Size())
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = file.Close()

			l = openLog(t, Config{Connect: inProcess(startServer(t, dir, nil))})
			if end, err := l.End(logtest.Context(t)); err != nil || end.Seq != last-1 || end.Last != events.SeqOf(last-1, 19) || end.Events != 180 {
				t.Fatalf("the log ends at %+v, %v; want frame %d", end, err, last-1)
			}
			mustAppend(t, l, last-1, logtest.Decision(5, "b"))
			if c := readAll(t, l); len(c.marks) != 185 || c.skipped != 0 {
				t.Errorf("read %d events, and skipped %d messages", len(c.marks), c.skipped)
			}
		})
	}
}
