package blobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// get reads one message of the bucket, jetstream.ErrMsgNotFound if there is
// none. A handle of nats.go would ask for the stream's configuration first,
// which clients may not.
func (s *Store) get(ctx context.Context, req map[string]any) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	m, err := s.nc.RequestWithContext(ctx, s.names(ctx).JetStream("STREAM.MSG.GET."+s.stream), body)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return nil, fmt.Errorf("the server's answer can't be read: %w", err)
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == natsNoMessage:
		return nil, jetstream.ErrMsgNotFound
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return nil, jetstream.ErrStreamNotFound
	case reply.Error != nil:
		return nil, reply.Error
	case reply.Message == nil:
		return nil, fmt.Errorf("the server's answer has no message")
	}
	r := reply.Message
	out := &jetstream.RawStreamMsg{Subject: r.Subject, Sequence: r.Seq, Data: r.Data, Time: r.Time}
	if len(r.Header) > 0 {
		if out.Header, err = nats.DecodeHeadersMsg(r.Header); err != nil {
			return nil, fmt.Errorf("the server's answer has an unreadable header: %w", err)
		}
	}
	return out, nil
}
