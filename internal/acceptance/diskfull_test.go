package acceptance

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamwright/streamwright"
	"github.com/streamwright/streamwright/config"
	"github.com/streamwright/streamwright/embedded"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/workers"
)

// onSmallDisk starts an engine with its data on a small file system.
func onSmallDisk(t *testing.T, d config.Durability) (*rig, need.Disk) {
	t.Helper()
	disk := need.SmallDisk(t, 128<<20)
	c := parse(t, `
[server]
http = "127.0.0.1:0"
[limits]
min_free = "32MiB"
max_store = "1GiB"
log_max_size = "16MiB"
`)
	return newRig(t, embedded.Options{Dir: filepath.Join(disk.Dir, "data"), NATSListen: "127.0.0.1:0", Durability: d, Config: c}), disk
}

// submitJob asks once, and does not try again.
func (r *rig) submitJob(ctx context.Context, params string) (id string, err error) {
	r.t.Helper()
	msg, err := r.nc.RequestWithContext(ctx, "work.api.submit", mustJSON(r.t, map[string]any{"type": "job", "params": params}))
	if err != nil {
		return "", err
	}
	var reply struct {
		ID    string
		Error *events.Error
	}
	fromJSON(r.t, msg.Data, &reply)
	if reply.Error != nil {
		return "", reply.Error
	}
	return reply.ID, nil
}

// A disk is filled by submissions, then by what runs and by somebody else, down
// to the last byte. First new work is refused, then nothing new is begun, then
// nothing can be written at all. When there is room again the same process goes
// on within seconds, and each accepted item is completed once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, d := range []config.Durability{config.Always, config.Interval} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			fullDisk(t, d)
		})
	}
}

func fullDisk(t *testing.T, d config.Durability) {
	r, disk := onSmallDisk(t, d)
	outside := r.client()
	t.Cleanup(outside.Close)
	url := r.eng.URL()
	large := strings.Repeat("x", 64<<10)
	const running = 4
	gates := map[string]chan struct{}{}
	var ids []string
	for range running {
		id := r.submit(streamwright.Item{Type: "job"})
		gates[id] = make(chan struct{})
		ids = append(ids, id)
	}
	begun := make(chan string, running)
	r.worker(workers.Config{Concurrency: running}, "job", func(ctx context.Context, it *workers.RawItem) (any, error) {
		if gate, held := gates[it.ID.String()]; held {
			begun <- it.ID.String()
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			return large, nil // which finds no room in a page that is half used
		}
		return "done", nil
	})
	for range running {
		recv(t, "an item runs", begun)
	}

	// The disk is filled until submissions are refused.
	for {
		if len(ids) == 64 {
			disk.Fill(t, 24<<20)
		}
		id, err := r.submitJob(r.ctx, large)
		if err != nil {
			wantCode(t, err, events.CodeUnavailable, "min_free")
			break
		}
		ids = append(ids, id)
		if len(ids) > 4096 {
			t.Fatal("submissions are never refused")
		}
	}
	if code, status := r.health(); code != http.StatusServiceUnavailable || status != "disk_low" {
		t.Errorf("health %d %s", code, status)
	}
	if room := disk.Room(t); room < 16<<20 {
		t.Fatalf("only %d bytes are free when submissions are first refused", room)
	}
	t.Logf("%d items accepted, %d bytes free", len(ids), disk.Room(t))

	// Below the half of min_free nothing new is begun.
	disk.Fill(t, 8<<20)
	eventually(t, "the engine says that it holds new work", func() bool { return must(r.c.Engine().Info(r.ctx))(t).Held != "" })
	before := r.get(ids[len(ids)-1])
	why := must(r.c.Why(r.ctx, before.ID))(t)
	if !slices.ContainsFunc(why.Reasons, func(o events.BlockReason) bool { return o.Code == events.WhyNoRoom }) {
		t.Errorf("why: %+v", why.Reasons)
	}
	// What runs is completed, and that is recorded.
	close(gates[ids[0]])
	r.wait(ids[0], events.StateCompleted)

	// The last byte is gone: what runs now ends, and can't be recorded.
	disk.Fill(t, 0)
	close(gates[ids[1]])
	eventually(t, "a write fails", func() bool { return contains(r.log.String(), "no space left on device") })
	if st := r.get(ids[1]).State; st != events.StateRunning {
		t.Errorf("an item is %s, with no room to record it", st)
	}

	disk.Free(t)
	freed := time.Now()
	eventually(t, "the engine serves again", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, time.Second)
		defer cancel()
		_, err := r.c.Types().Configure(ctx, "other", streamwright.Settings{Capacity: new(7)}) // which is recorded
		return err == nil
	})
	took := time.Since(freed)
	t.Logf("it serves again after %s", took)
	if took > time.Minute {
		t.Errorf("the engine served again only after %s", took)
	}
	close(gates[ids[2]])
	close(gates[ids[3]])
	for _, id := range ids {
		r.wait(id, events.StateCompleted)
	}
	r.completedOnce(ids)
	r.verify()
	if r.eng.URL() != url {
		t.Errorf("the NATS server listens at %s, not at %s", r.eng.URL(), url)
	}
	if _, err := outside.Get(r.ctx, ids[0]); err != nil {
		t.Errorf("a client that connects over TCP: %v", err)
	}
}
