package api

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/wire"
)

var (
	descStreamBytes = desc("stream_bytes", "Bytes of a stream: events (the log), intake, logs; where they are there: output, dispatch, dispatch_acks (see docs/guides/ACK.md), payloads.", "stream")
	descStreamMost  = desc("stream_max_bytes", "Bytes that a stream may hold; none for a stream without a limit.", "stream")
	descStreamMsgs  = desc("stream_messages", "Messages of a stream.", "stream")
	descStreamLimit = desc("stream_max_messages", "Messages that a stream may hold; none for a stream without a limit.", "stream")
	descStreamFirst = desc("stream_first_sequence", "First sequence that a stream has.", "stream")
	descStreamLast  = desc("stream_last_sequence", "Last sequence that a stream has had.", "stream")
	descBacklog     = desc("intake_backlog", "Published submissions that are not decided yet.")

	descDiskFree    = desc("disk_free_bytes", "Bytes that the engine may still write to the file system of its data folder.")
	descDiskLeast   = desc("disk_min_free_bytes", "Bytes free on the disk below which new work is refused.")
	descDataBytes   = desc("data_dir_bytes", "Bytes of the files in the data folder, as of the last minute.")
	descStorageUsed = desc("storage_used_bytes", "Bytes that the embedded server's streams hold.")
	descStorageMost = desc("storage_max_bytes", "Bytes that the embedded server's streams may hold.")
)

// StorageUse tells how much room the engine has. A nil field is not
// known: the engine is in memory, or on a NATS server that is not its own.
type StorageUse struct {
	DiskFree, DiskLeast, DataDir *uint64
	Used, Most                   *uint64
}

// ownedStream is a stream of the engine's, and its label.
type ownedStream struct {
	label, name string
	always      bool // else it is there once it is needed
}

func ownedStreams(n wire.Names) []ownedStream {
	return []ownedStream{
		{"events", n.EventStream(0), true}, {"intake", n.IntakeStream(), true},
		{"logs", n.LogStream(), true}, {"output", n.OutputStream(), false},
		{"dispatch", n.DispatchStream(), false}, {"dispatch_acks", n.DispatchAckStream(), false},
		{"payloads", blobs.Stream(n), false},
	}
}

// streams shows the streams' sizes. One request for each, to the server.
func (c collector) streams(ctx context.Context, out gauge) {
	for _, o := range ownedStreams(c.s.Names) {
		label := o.label
		s, err := c.s.js.Stream(ctx, o.name)
		if err != nil {
			if missing := errors.Is(err, jetstream.ErrStreamNotFound); ctx.Err() == nil && (o.always || !missing) {
				c.s.Logger.Warn("metrics lack a stream", "stream", o.name, "error", err)
			}
			continue
		}
		info := s.CachedInfo() // as of just now
		out(descStreamBytes, float64(info.State.Bytes), label)
		if info.Config.MaxBytes > 0 {
			out(descStreamMost, float64(info.Config.MaxBytes), label)
		}
		if info.Config.MaxMsgs > 0 {
			out(descStreamLimit, float64(info.Config.MaxMsgs), label)
		}
		out(descStreamMsgs, float64(info.State.Msgs), label)
		out(descStreamFirst, float64(info.State.FirstSeq), label)
		out(descStreamLast, float64(info.State.LastSeq), label)
		if label == "intake" {
			if meta, err := c.s.Queries.Meta(); err == nil {
				// A new life of the stream begins far behind the last.
				out(descBacklog, float64(lacks(info.State.LastSeq, max(meta.IntakeSeq, info.State.FirstSeq-min(info.State.FirstSeq, 1)))))
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
