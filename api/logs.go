package api

import (
	"context"
	"errors"
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
	sub, err := l.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	req := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":%d}`, from, subject, logBatch)
	if err := l.nc.PublishRequest(l.names.JetStream("DIRECT.GET."+l.names.LogStream()), inbox, []byte(req)); err != nil {
		return nil, 0, err
	}
	for {
		msg, err := l.nextMsg(ctx, sub)
		if err != nil {
			return nil, 0, err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
			records = append(records, recordOf(msg))
		case "404": // nothing, or nothing more
			return records, 0, nil
		case "204": // the end of the batch
			if msg.Header.Get("Nats-Num-Pending") == "0" || len(records) == 0 {
				return records, 0, nil
			}
			return records, records[len(records)-1].Seq + 1, nil
		default:
			return nil, 0, fmt.Errorf("the server answers %s %s", status, msg.Header.Get("Description"))
		}
	}
}

func (l *Logs) nextMsg(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, logWait)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, events.Refuse(events.CodeUnavailable, "the stream %s does not answer: it is being made, or gone; restart the engine if this lasts", l.names.LogStream())
	}
	return msg, err
}

func recordOf(msg *nats.Msg) wire.LogRecord {
	r := readRecord(msg.Data)
	r.Seq, _ = strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	if r.At.IsZero() {
		r.At, _ = time.Parse(time.RFC3339Nano, msg.Header.Get("Nats-Time-Stamp"))
	}
	return r
}
