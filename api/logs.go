package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of items' logs.
const (
	// MaxLogRecords is how many records of one item are kept, and read at once.
	MaxLogRecords = 10_000
	// MaxLogMessage bounds a message on a log subject: a record's text of 8 KiB,
	// in JSON.
	MaxLogMessage = 64 << 10
	// DefaultLogMaxAge and DefaultLogMaxBytes bound the whole stream.
	DefaultLogMaxAge         = 7 * 24 * time.Hour
	DefaultLogMaxBytes int64 = 1 << 30

	// logRecordBytes is what a record counts for the bound of the stream in records,
	// at least: each may have a subject of its own, which the server holds in memory
	// (about 350 bytes) while the record is kept. A record without a body takes 71
	// bytes on disk, so bytes alone would bound that memory at five times the bound.
	logRecordBytes = 1024

	defaultLogRecords = 1000
	logBatch          = 500 // records asked for at once
	logWait           = 5 * time.Second
)

// LogsConfig says how the items' logs are kept. Zero fields have defaults.
type LogsConfig struct {
	Conn     *nats.Conn
	Names    wire.Names
	Memory   bool
	Replicas int
	MaxAge   time.Duration
	MaxBytes int64
}

// Logs is the stream of the items' logs.
type Logs struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	names wire.Names
}

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
		Discard: jetstream.DiscardOld, AllowDirect: true, Replicas: max(c.Replicas, 1), Duplicates: 100 * time.Millisecond,
	}
	if conf.MaxAge == 0 {
		conf.MaxAge = DefaultLogMaxAge
	}
	if conf.MaxBytes == 0 {
		conf.MaxBytes = DefaultLogMaxBytes
	}
	conf.MaxMsgs = max(conf.MaxBytes/logRecordBytes, MaxLogRecords)
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
	return &Logs{nc: c.Conn, js: js, names: c.Names}, nil
}

// Last returns the last records of an item's log, oldest first: at most limit
// of them, 0 meaning 1,000. A message that is no record comes as its text.
func (l *Logs) Last(ctx context.Context, t events.Type, id events.ID, limit int) ([]wire.LogRecord, error) {
	if limit == 0 {
		limit = defaultLogRecords
	}
	records := []wire.LogRecord{}
	for next := uint64(1); next > 0; {
		batch, after, err := l.batch(ctx, l.names.Log(t, id), next)
		if err != nil {
			return nil, fmt.Errorf("read the log of item %s: %w", id, err)
		}
		records = append(records, batch...)
		if over := len(records) - limit; over > 0 {
			records = records[:copy(records, records[over:])]
		}
		next = after
	}
	return records, nil
}

// batch asks for the records of a subject from a sequence on, in one request
// that is answered with a message each. It returns where the next batch
// begins, 0 if there is none. No consumer is made for it.
func (l *Logs) batch(ctx context.Context, subject string, from uint64) (records []wire.LogRecord, next uint64, err error) {
	inbox := l.nc.NewInbox()
	msgs := make(chan *nats.Msg, logBatch+1) // a SubscribeSync would take a record for "no responders"
	sub, err := l.nc.ChanSubscribe(inbox, msgs)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	req := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":%d}`, from, subject, logBatch)
	if err := l.nc.PublishRequest(l.names.JetStream("DIRECT.GET."+l.names.LogStream()), inbox, []byte(req)); err != nil {
		return nil, 0, err
	}
	for {
		msg, err := nextMsg(ctx, msgs)
		if err != nil {
			return nil, 0, err
		}
		// A record may have headers of its own, a status too. The server's come
		// behind them, and every message that was stored has them.
		if ofServer(msg, "Nats-Stream") == l.names.LogStream() {
			records = append(records, recordOf(msg))
			continue
		}
		switch status := msg.Header.Get("Status"); status {
		case "404": // nothing, or nothing more
			return records, 0, nil
		case "204": // the end of the batch
			if msg.Header.Get("Nats-Num-Pending") == "0" || len(records) == 0 {
				return records, 0, nil
			}
			return records, records[len(records)-1].Seq + 1, nil
		case "503":
			return nil, 0, events.Refuse(events.CodeUnavailable, "the stream %s does not answer: it is being made, or gone; restart the engine if this lasts", l.names.LogStream())
		default:
			return nil, 0, fmt.Errorf("the server answers %s %s", status, msg.Header.Get("Description"))
		}
	}
}

func nextMsg(ctx context.Context, msgs <-chan *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	select {
	case msg := <-msgs:
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func recordOf(msg *nats.Msg) wire.LogRecord {
	r := readRecord(msg.Data)
	r.Seq, _ = strconv.ParseUint(ofServer(msg, "Nats-Sequence"), 10, 64)
	if r.At.IsZero() {
		r.At, _ = time.Parse(time.RFC3339Nano, ofServer(msg, "Nats-Time-Stamp"))
	}
	return r
}

// ofServer is the value of a header that the server has put behind those of the
// message.
func ofServer(msg *nats.Msg, name string) string {
	values := msg.Header[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
