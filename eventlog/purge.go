package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// Purge implements Log. The stream's leader does it; the messages leave the
// files, too, once the blocks that hold nothing else are removed.
func (l *JetStream) Purge(ctx context.Context, below uint64) error {
	if l.readOnly {
		return fmt.Errorf("cut the event log below frame %d: %w", below, ErrReadOnly)
	}
	if err := l.purge(ctx, fmt.Appendf(nil, `{"seq":%d}`, below)); err != nil {
		return fmt.Errorf("cut the event log below frame %d: %w", below, err)
	}
	return nil
}

func (l *JetStream) purge(ctx context.Context, req []byte) error {
	var resp struct {
		Error   *apiError `json:"error"`
		Success bool      `json:"success"`
	}
	switch err := l.request(ctx, l.cfg.Names.JetStream("STREAM.PURGE."+l.stream), req, &resp); {
	case err != nil:
		return err
	case resp.Error != nil:
		return resp.Error
	case !resp.Success:
		return errors.New("the server has not done it")
	}
	return nil
}
