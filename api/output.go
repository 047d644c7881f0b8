package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/directget"
	"github.com/streamwright/streamwright/internal/sleep"
	"github.com/streamwright/streamwright/wire"
)

// Bounds of items' outputs.
const (
	// DefaultOutputItemBytes bounds what one run writes.
	DefaultOutputItemBytes = 1 << 20
	// DefaultOutputMaxBytes bounds the outputs of all items together.
	DefaultOutputMaxBytes int64 = 1 << 30

	// A reply has at most outputPageChunks chunks, and ends behind outputPageBytes of them.
	// Written in JSON they may become six times as large, which still fits into a message.
	outputPageChunks = 500
	outputPageBytes  = 80 << 10

	outputHeaderBytes = 1 << 10
	outputTries       = 5                     // to store it behind what is there
	outputPause       = 20 * time.Millisecond // before another try
	outputEnds        = 10_000                // outputs whose end is remembered
	outputPrunes      = 1000                  // pruned items whose output is to be removed; a sweep finds those beyond
	outputSweep       = 10 * time.Minute      // between two sweeps
)

// OutputConfig says how the items' outputs are kept. Zero fields have defaults.
type OutputConfig struct {
	Conn      *nats.Conn // the engine's own
	Names     wire.Names
	Memory    bool
	Replicas  int
	Placement []string // tags of the servers that hold the stream
	ItemBytes int      // of one run
	MaxBytes  int64    // of all items
	// Exists reports whether there is such an item, of all that is durable now. In an engine
	// that does not own the log there always is.
	Exists func(context.Context, events.ID) (bool, error)
	Logger *slog.Logger // nil: none
}

// Output is the stream of the items' outputs. It is made with the first chunk. The
// engine alone writes to it: a subject holds the chunks of one run, in order and without overlap,
// since each is stored directly behind the one before, and the first of a run takes the
// place of all that was there. Runs follow each other in the order of their tokens.
type Output struct {
	cfg OutputConfig
	js  jetstream.JetStream

	cancel context.CancelFunc
	done   sync.WaitGroup
	pruned chan *events.Item
	there  atomic.Bool // the stream, as far as this process knows

	mu   sync.Mutex
	made bool                     // the stream, by this process
	ends map[events.ID]*outputEnd // where outputs end; the stream knows better
}

// outputEnd is the last chunk of an output. It does not change.
type outputEnd struct {
	seq    uint64
	token  events.Token
	number int
	bytes  int // of the run, this chunk included
	cut    bool
}

// NewOutput makes an Output. It sends nothing.
func NewOutput(c OutputConfig) (*Output, error) {
	js, err := connect.JetStream(c.Conn, c.Names)
	if err != nil {
		return nil, fmt.Errorf("open items' outputs: %w", err)
	}
	c.ItemBytes, c.MaxBytes = cmp.Or(c.ItemBytes, DefaultOutputItemBytes), cmp.Or(c.MaxBytes, DefaultOutputMaxBytes)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Output{cfg: c, js: js, ends: map[events.ID]*outputEnd{}, pruned: make(chan *events.Item, outputPrunes)}, nil
}

// make makes the stream, or brings it to this configuration, once. At its bounds the oldest
// chunks go.
func (o *Output) make(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made {
		return nil
	}
	conf := jetstream.StreamConfig{
		Name: o.cfg.Names.OutputStream(), Description: "outputs of items", Subjects: []string{o.cfg.Names.OutputAll()},
		MaxBytes: o.cfg.MaxBytes, MaxMsgs: max(o.cfg.MaxBytes/logRecordBytes, wire.MaxOutputChunks), MaxMsgSize: wire.MaxOutputChunk + outputHeaderBytes,
		Discard: jetstream.DiscardOld, AllowDirect: true, AllowRollup: true, Replicas: max(o.cfg.Replicas, 1), Placement: connect.Placement(o.cfg.Placement), Duplicates: 100 * time.Millisecond,
	}
	if o.cfg.Memory {
		conf.Storage = jetstream.MemoryStorage
	}
	if s, err := o.js.Stream(ctx, conf.Name); err == nil {
		conf.Placement = s.CachedInfo().Config.Placement
	}
	if _, err := o.js.CreateOrUpdateStream(ctx, conf); err != nil {
		return fmt.Errorf("make stream %s: %w", conf.Name, err)
	}
	o.made = true
	o.there.Store(true)
	return nil
}

// Write stores a chunk of a run, unless it is stored. The caller knows that the run has the item.
func (o *Output) Write(ctx context.Context, t events.Type, id events.ID, attempt events.Attempt, token events.Token, offset *int, data []byte) (wire.OutputSummary, error) {
	if err := o.make(ctx); err != nil {
		return wire.OutputSummary{}, outputUnavailable(id, err)
	}
	for try := 0; ; try++ {
		end, err := o.end(ctx, t, id)
		if err != nil {
			return wire.OutputSummary{}, outputUnavailable(id, err)
		}
		next, data, err := o.behind(end, token, offset, data)
		if err != nil || next == nil {
			return wire.OutputSummary{Bytes: end.bytes, Cut: end.cut}, err
		}
		err = o.store(ctx, t, id, attempt, end, next, data)
		if err == nil {
			return wire.OutputSummary{Bytes: next.bytes, Cut: next.cut}, nil
		}
		o.forget(id)
		if try == outputTries || ctx.Err() != nil || !wrongEnd(err) {
			return wire.OutputSummary{}, outputUnavailable(id, err)
		}
		// Another write was under way, perhaps this very chunk.
		if err := sleep.For(ctx, outputPause); err != nil {
			return wire.OutputSummary{}, err
		}
	}
}

func outputUnavailable(id events.ID, err error) error {
	return events.Refuse(events.CodeUnavailable, "the output of item %s can't be had: %v: ask again", id, err)
}

// wrongEnd reports whether a chunk was refused since another one was there before.
func wrongEnd(err error) bool {
	const underWay = 10164
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refused.ErrorCode == underWay)
}

// behind returns the end of an output once a chunk is stored behind it, and what is to be
// stored of the chunk; nil if nothing is.
func (o *Output) behind(end *outputEnd, token events.Token, offset *int, data []byte) (*outputEnd, []byte, error) {
	if token < end.token {
		return nil, nil, errStaleOutput
	}
	first := token != end.token
	next := &outputEnd{token: token, number: 1}
	if !first {
		next.number, next.bytes = end.number+1, end.bytes
	}
	switch {
	case offset == nil:
	case first && end.token == 0 && *offset > 0:
		// Others have written so much that all of this run's chunks were dropped.
		next.number, next.bytes = 2, *offset
	case *offset > next.bytes:
		return nil, nil, events.Refuse(events.CodeBadRequest, "the chunk has the offset %d, and the run has written %d bytes: send what is between first", *offset, next.bytes)
	default:
		data = data[min(next.bytes-*offset, len(data)):]
	}
	if !first && (end.cut || len(data) == 0) {
		return nil, nil, nil
	}
	if room := max(o.cfg.ItemBytes-next.bytes, 0); len(data) > room || next.number >= wire.MaxOutputChunks {
		data, next.cut = data[:min(room, len(data))], true
	}
	next.bytes += len(data)
	return next, data, nil
}

var errStaleOutput = events.Refuse(events.CodeStaleToken, "a later run of the item writes its output: stop running it")

// end returns the end of an output. One without a chunk has the token 0.
func (o *Output) end(ctx context.Context, t events.Type, id events.ID) (*outputEnd, error) {
	o.mu.Lock()
	end := o.ends[id]
	o.mu.Unlock()
	if end != nil {
		return end, nil
	}
	m, err := o.last(ctx, t, id)
	if err != nil || m == nil {
		return &outputEnd{}, err
	}
	c, err := readChunk(m)
	if err != nil {
		return &outputEnd{seq: m.Seq}, nil // it is not the engine's: chunks go behind it
	}
	end = &outputEnd{seq: m.Seq, token: c.token, number: c.number, bytes: c.Offset + len(m.Data), cut: c.Cut}
	o.remember(id, end)
	return end, nil
}

func (o *Output) remember(id events.ID, end *outputEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.ends[id]; known != nil && known.seq > end.seq {
		return
	}
	if len(o.ends) >= outputEnds {
		clear(o.ends)
	}
	o.ends[id] = end
}

func (o *Output) forget(id events.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ends, id)
}

// store stores a chunk directly behind the end.
func (o *Output) store(ctx context.Context, t events.Type, id events.ID, attempt events.Attempt, end, next *outputEnd, data []byte) error {
	m := &nats.Msg{Subject: o.cfg.Names.Output(t, id), Data: data, Header: nats.Header{
		wire.HeaderAttempt:      {strconv.Itoa(int(attempt))},
		wire.HeaderToken:        {next.token.String()},
		wire.HeaderOutputNumber: {strconv.Itoa(next.number)},
		wire.HeaderOutputOffset: {strconv.Itoa(next.bytes - len(data))},
	}}
	if next.cut {
		m.Header.Set(wire.HeaderOutputCut, "1")
	}
	if next.number == 1 && end.seq > 0 {
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	ack, err := o.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(end.seq), jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		o.mu.Lock()
		o.made = false // somebody has removed it
		o.mu.Unlock()
	}
	if err != nil {
		return err
	}
	stored := *next
	stored.seq = ack.Sequence
	o.remember(id, &stored)
	return nil
}

// storedChunk is a chunk as the stream has it.
type storedChunk struct {
	wire.OutputChunk
	token  events.Token
	number int
}

func readChunk(m *directget.Message) (c storedChunk, err error) {
	number := func(key string) (n int) {
		if err == nil {
			n, err = strconv.Atoi(m.Header.Get(key))
		}
		return n
	}
	c.OutputChunk = wire.OutputChunk{
		Seq: m.Seq, At: m.Time.UTC(), Attempt: number(wire.HeaderAttempt), Offset: number(wire.HeaderOutputOffset), Cut: m.Header.Get(wire.HeaderOutputCut) != "",
		OutputBytes: wire.OutputBytesOf(m.Data),
	}
	c.number = number(wire.HeaderOutputNumber)
	c.Reset = c.number == 1
	if err == nil {
		c.token, err = wire.ParseToken(m.Header.Get(wire.HeaderToken))
	}
	return c, err
}

// last returns the last message of an item's output, as the stream's leader has it; nil for
// none.
func (o *Output) last(ctx context.Context, t events.Type, id events.ID) (*directget.Message, error) {
	subject := o.cfg.Names.JetStream("STREAM.MSG.GET." + o.cfg.Names.OutputStream())
	ctx, cancel := context.WithTimeout(ctx, directget.Timeout)
	defer cancel()
	m, err := directget.FromLeader(ctx, o.cfg.Conn, subject, directget.Request{LastFor: o.cfg.Names.Output(t, id)})
	var refused *jetstream.APIError
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		return nil, nil
	}
	return &m, err
}

// After returns the first chunks of an item's output behind a sequence, as many as fit into
// one reply. Without More these are all that was stored when it was called.
func (o *Output) After(ctx context.Context, t events.Type, id events.ID, behind uint64) (reply wire.OutputReply, err error) {
	reply.Chunks = []wire.OutputChunk{}
	last, err := o.last(ctx, t, id)
	if err != nil {
		return reply, outputUnavailable(id, err)
	}
	if last == nil || last.Seq <= behind {
		return reply, nil
	}
	msgs, _, err := directget.Get(ctx, o.cfg.Conn, o.cfg.Names.JetStream("DIRECT.GET."+o.cfg.Names.OutputStream()), directget.Request{
		Seq: behind + 1, NextFor: o.cfg.Names.Output(t, id), Batch: outputPageChunks, MaxBytes: outputPageBytes,
	})
	if err != nil {
		return reply, outputUnavailable(id, err)
	}
	if len(msgs) == 0 {
		return reply, outputUnavailable(id, errors.New("the server that was asked does not have its end yet"))
	}
	for i := range msgs {
		if c, err := readChunk(&msgs[i]); err == nil { // else it is not the engine's
			reply.Chunks = append(reply.Chunks, c.OutputChunk)
		}
	}
	reply.More = msgs[len(msgs)-1].Seq < last.Seq
	return reply, nil
}
