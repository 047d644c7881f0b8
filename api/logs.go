package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of items' logs.
const (
	// MaxLogRecords bounds the records of one item that are kept, and read at once.
	MaxLogRecords = 10_000
	// MaxLogMessage bounds a message on a log subject: a record's text of 8 KiB,
	// in JSON.
	MaxLogMessage = 64 << 10
	// DefaultLogMaxAge and DefaultLogMaxBytes bound the whole stream.
	DefaultLogMaxAge         = 7 * 24 * time.Hour
	DefaultLogMaxBytes int64 = 1 << 30

	// logRecordBytes is the least that a record counts for the stream's bound in
	// records: each may have a subject of its own, which the server holds in memory
	// (about 350 bytes) while the record is kept. A record without a body takes 71
	// bytes on disk, so bytes alone would bound that memory at five times the bound.
	logRecordBytes = 1024

	defaultLogRecords = 1000
	// lastLogBytes bounds the texts of the records that are read at once.
	lastLogBytes = 4 << 20
	logBatch     = 500 // records asked for at once
)

// LogsConfig says how the items' logs are kept. Zero fields have defaults.
type LogsConfig struct {
	Conn      *nats.Conn
	Names     wire.Names
	Memory    bool
	Replicas  int
	Placement []string // tags of the servers that hold the stream
	MaxAge    time.Duration
	MaxBytes  int64
}

// Logs is the stream of the items' logs.
type Logs struct {
	nc    *nats.Conn
	names wire.Names
}

// MirroredLogs returns the items' logs of a stream that exists.
func MirroredLogs(nc *nats.Conn, names wire.Names) *Logs { return &Logs{nc, names} }

// OpenLogs makes the stream, or brings it to this configuration. At its bounds
// the oldest records go.
func OpenLogs(ctx context.Context, c LogsConfig) (*Logs, error) {
	js, err := connect.JetStream(c.Conn, c.Names)
	if err != nil {
		return nil, fmt.Errorf("open items' logs: %w", err)
	}
	conf := jetstream.StreamConfig{
		Name: c.Names.LogStream(), Description: "log records of items", Subjects: []string{c.Names.LogAll()},
		MaxAge: c.MaxAge, MaxBytes: c.MaxBytes, MaxMsgsPerSubject: MaxLogRecords, MaxMsgSize: MaxLogMessage,
		Discard: jetstream.DiscardOld, AllowDirect: true, Replicas: max(c.Replicas, 1), Placement: connect.Placement(c.Placement), Duplicates: 100 * time.Millisecond,
	}
	if conf.MaxAge == 0 {
		conf.MaxAge = DefaultLogMaxAge
	}
	if conf.MaxBytes == 0 {
		conf.MaxBytes = DefaultLogMaxBytes
	}
	conf.MaxMsgs = max(conf.MaxBytes/logRecordBytes, MaxLogRecords)
	if s, err := js.Stream(ctx, conf.Name); err == nil {
		have := s.CachedInfo().Config
		conf.Placement = have.Placement
		if have.PersistMode == jetstream.AsyncPersistMode {
			conf.Replicas = 1 // the server can't change this way of writing, nor replicate it
		}
	}
	switch {
	case c.Memory:
		conf.Storage = jetstream.MemoryStorage
	case conf.Replicas == 1:
		// A log line is not worth a wait for the disk.
		conf.PersistMode = jetstream.AsyncPersistMode
	}
	if _, err := js.CreateOrUpdateStream(ctx, conf); err != nil {
		return nil, fmt.Errorf("open items' logs: make stream %s: %w", conf.Name, err)
	}
	return &Logs{c.Conn, c.Names}, nil
}

// Last returns the last records of an item's log, oldest first: at most limit
// of them, 0 meaning 1,000, whose texts have 4 MiB together. A message that is no
// record comes as its text.
func (l *Logs) Last(ctx context.Context, t events.Type, id events.ID, limit int) ([]wire.LogRecord, error) {
	limit = cmp.Or(limit, defaultLogRecords)
	records := []wire.LogRecord{}
	bytes := 0
	for behind, more := uint64(0), true; more; {
		page, err := l.After(ctx, t, id, behind, logBatch)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			bytes += len(r.Message)
		}
		records = append(records, page.Records...)
		over := 0
		for ; len(records)-over > limit || bytes > lastLogBytes; over++ {
			bytes -= len(records[over].Message)
		}
		records = slices.Delete(records, 0, over) // which lets go of their texts
		if more = page.More && len(page.Records) > 0; more {
			behind = page.Records[len(page.Records)-1].Seq
		}
	}
	return records, nil
}

// Follow gives the records of an item's log behind a sequence to fn, as [Output.Follow] does
// with chunks of its output.
func (l *Logs) Follow(ctx context.Context, t events.Type, id events.ID, behind uint64, ended <-chan struct{}, fn func(wire.LogRecord) error) error {
	return follow(ctx, l.nc, l.names.Log(t, id), ended, fn, func() ([]wire.LogRecord, bool, error) {
		page, err := l.After(ctx, t, id, behind, logBatch)
		if n := len(page.Records); n > 0 {
			behind = page.Records[n-1].Seq
		}
		return page.Records, page.More, err
	})
}

// readRecord reads a message of a log; one that is no record comes as its text.
func readRecord(data []byte, seq uint64, stored time.Time) (r wire.LogRecord) {
	if err := json.Unmarshal(data, &r); err != nil {
		r = wire.LogRecord{Level: "info", Message: string(data)}
	}
	if r.Seq = seq; r.At.IsZero() {
		r.At = stored
	}
	return r
}

// maxLogPage bounds a page of records, in bytes of stored messages and one
// message beyond. Written as a reply they may become twice as large.
const maxLogPage = 512 << 10

// After returns the first records of an item's log behind a sequence: at most
// limit of them, 0 meaning 1,000, and no more than fit into one reply.
func (l *Logs) After(ctx context.Context, t events.Type, id events.ID, behind uint64, limit int) (reply wire.LogsReply, err error) {
	msgs, pending, err := directget.Get(ctx, l.nc, l.names.JetStream("DIRECT.GET."+l.names.LogStream()), directget.Request{
		Seq: behind + 1, NextFor: l.names.Log(t, id), Batch: min(cmp.Or(limit, defaultLogRecords), defaultLogRecords), MaxBytes: maxLogPage,
	})
	switch {
	case errors.Is(err, directget.ErrUnreachable):
		return reply, events.Refuse(events.CodeUnavailable, "read the log of item %s: %v: ask again", id, err)
	case err != nil:
		return reply, fmt.Errorf("read the log of item %s: %w", id, err)
	}
	reply.Records = make([]wire.LogRecord, len(msgs))
	for i := range msgs {
		reply.Records[i] = readRecord(msgs[i].Data, msgs[i].Seq, msgs[i].Time)
	}
	reply.More = pending > 0
	return reply, nil
}
