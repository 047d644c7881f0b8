package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Kept is what the log of partition 0 holds. An empty log has First behind Last.
type Kept struct {
	First, Last events.Seq
	// Start is where the decision begins that the position asked about belongs
	// to; that position itself if it is not kept, or no engine wrote it.
	Start events.Seq
}

// Around looks at the log around a position, for a reader who goes on from
// there: a Tail that begins in the midst of a decision passes over the rest of
// it, so he begins at Start and passes over what he has. Position 0 asks for First
// and Last alone. names may be zero.
func Around(ctx context.Context, nc *nats.Conn, names wire.Names, seq events.Seq) (Kept, error) {
	cfg := TailConfig{Names: names}.WithDefaults()
	js, err := connect.JetStream(nc, cfg.Names)
	if err != nil {
		return Kept{}, fmt.Errorf("look at the event log: %w", err)
	}
	t := &tail{cfg: cfg, nc: nc, js: js, stream: cfg.Names.EventStream(0), dec: newDecoder(cfg.Names, 0)}
	if t.log, err = t.handle(ctx); err != nil {
		return Kept{}, err
	}
	st := t.log.CachedInfo().State
	k := Kept{First: events.Seq(st.FirstSeq), Last: events.Seq(st.LastSeq), Start: seq}
	if seq == 0 || seq < k.First || seq > k.Last {
		return k, nil
	}
	m, err := t.get(ctx, seq)
	var trimmed *TrimmedError
	switch {
	case errors.As(err, &trimmed):
		k.First = trimmed.First
		return k, nil
	case err != nil:
		return k, err
	}
	d := t.dec.decode(m)
	switch {
	case d.err != nil:
		return k, d.err
	case d.foreign == "" && d.ev.Tx.N > 1:
		k.Start = max(seq-events.Seq(d.ev.Tx.N-1), k.First)
	}
	return k, nil
}
