package api

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	descStreamBytes = desc("stream_bytes", "Bytes of a stream: events (the log), intake, dispatch, logs.", "stream")
	descStreamMost  = desc("stream_max_bytes", "Bytes that a stream may hold; none for a stream without a limit.", "stream")
	descStreamMsgs  = desc("stream_messages", "Messages of a stream.", "stream")
	descStreamFirst = desc("stream_first_sequence", "First sequence that a stream has.", "stream")
	descStreamLast  = desc("stream_last_sequence", "Last sequence that a stream has had.", "stream")
	descBacklog     = desc("intake_backlog", "Published submissions that are not decided yet.")

	descDiskFree    = desc("disk_free_bytes", "Bytes that the engine may still write to the file system of its data folder.")
	descDiskLeast   = desc("disk_min_free_bytes", "Bytes free on the disk below which new work is refused.")
	descDataBytes   = desc("data_dir_bytes", "Bytes of the files in the data folder, as of the last minute.")
	descStorageUsed = desc("storage_used_bytes", "Bytes that the embedded server's streams hold.")
	descStorageMost = desc("storage_max_bytes", "Bytes that the embedded server's streams may hold.")
)

// Storage is what is known of the room that the engine has. A nil field is not
// known: the engine is in memory, or on a NATS server that is not its own.
type Storage struct {
	DiskFree, DiskLeast, DataDir *uint64
	Used, Most                   *uint64
}

// streams shows the streams' sizes. One request for each, to the server.
func (c collector) streams(ctx context.Context, out gauge) {
	n := c.s.Names
	js, err := jetstream.New(c.s.Conn)
	if err != nil {
		c.s.Logger.Warn("metrics lack the streams", "error", err)
		return
	}
	for label, name := range map[string]string{"events": n.EventStream(0), "intake": n.IntakeStream(), "dispatch": n.DispatchStream(), "logs": n.LogStream()} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			if ctx.Err() == nil {
				c.s.Logger.Warn("metrics lack a stream", "stream", name, "error", err)
			}
			continue
		}
		info := s.CachedInfo() // as of just now
		out(descStreamBytes, float64(info.State.Bytes), label)
		if info.Config.MaxBytes > 0 {
			out(descStreamMost, float64(info.Config.MaxBytes), label)
		}
		out(descStreamMsgs, float64(info.State.Msgs), label)
		out(descStreamFirst, float64(info.State.FirstSeq), label)
		out(descStreamLast, float64(info.State.LastSeq), label)
		if label == "intake" {
			if meta, err := c.s.Queries.Meta(); err == nil {
				out(descBacklog, float64(lag(info.State.LastSeq, meta.IntakeSeq)))
			}
		}
	}
}

// storage shows the room.
func (c collector) storage(out gauge) {
	if c.s.Storage == nil {
		return
	}
	st := c.s.Storage()
	for d, v := range map[*prometheus.Desc]*uint64{descDiskFree: st.DiskFree, descDiskLeast: st.DiskLeast, descDataBytes: st.DataDir, descStorageUsed: st.Used, descStorageMost: st.Most} {
		if v != nil {
			out(d, float64(*v))
		}
	}
}
