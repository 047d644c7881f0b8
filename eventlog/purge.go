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

// PurgeFault is a way in which one Purge of a Memory goes wrong.
type PurgeFault uint8

// The faults of a Purge: nothing; there is no answer, and it was not done; or
// it was.
const (
	PurgeOK PurgeFault = iota
	PurgeLost
	PurgeAckLost
)

// ScriptPurges sets the faults of the coming purges, one for each.
func (m *Memory) ScriptPurges(faults ...PurgeFault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.purges = append(m.purges[:0:0], faults...)
}

// Purge implements Log.
func (m *Memory) Purge(ctx context.Context, below uint64) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	fault := PurgeOK
	if len(m.purges) > 0 {
		fault, m.purges = m.purges[0], m.purges[1:]
	}
	m.mu.Unlock()
	if fault != PurgeLost {
		m.stream.Trim(below)
	}
	if fault != PurgeOK {
		return fmt.Errorf("cut the event log below frame %d: %w", below, errors.Join(ErrUnreachable, errInjected))
	}
	return nil
}
