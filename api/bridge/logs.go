package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// MaxLogs bounds the log records of one request.
	MaxLogs = 1000
	// maxLogText bounds the text of a record, in bytes; what is beyond is cut.
	maxLogText = 8 << 10
)

// Log writes a worker's records to the logs of items. As over NATS, it is best effort, and
// the item need not be one that the worker runs.
func (b *Bridge) Log(ctx context.Context, worker string, req wire.WorkerLogs) error {
	if len(req.Records) > MaxLogs {
		return events.Refuse(events.CodeTooLarge, "the request has %d log records: send at most %d at once", len(req.Records), MaxLogs)
	}
	s, err := b.enter(ctx, worker, req.Session)
	if err != nil {
		return err
	}
	defer b.leave(s)
	subjects := make([]string, len(req.Records))
	for i, r := range req.Records {
		t, err := events.ParseType(r.Type)
		if err != nil {
			return events.Refuse(events.CodeBadType, "records[%d]: %v", i, err)
		}
		id, err := events.ParseID(r.ID)
		if err != nil {
			return events.Refuse(events.CodeBadID, "records[%d]: %v", i, err)
		}
		subjects[i] = b.cfg.Names.Log(t, id)
	}
	for i, r := range req.Records {
		at := r.At
		if at.IsZero() {
			at = time.Now()
		}
		body, err := json.Marshal(wire.LogRecord{At: at.UTC(), Level: level(r.Level), Attempt: max(r.Attempt, 0), Worker: s.id, Message: events.CutText(r.Message, maxLogText)})
		if err == nil {
			err = b.cfg.Conn.Publish(subjects[i], body)
		}
		if err != nil {
			return events.Refuse(events.CodeUnavailable, "write to the log of item %s: %v", r.ID, err)
		}
	}
	return nil
}

// level returns the level of a record: info for one that is not known.
func level(said string) string {
	switch said {
	case "debug", "warn", "error":
		return said
	}
	return "info"
}
