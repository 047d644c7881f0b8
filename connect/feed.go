package connect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/wire"
)

// ErrFeedLost is wrapped by the errors of a [Feed] that has ended before its
// stream: open another one, behind the last message.
var ErrFeedLost = errors.New("the feed is lost")

// Bounds of a Feed.
const (
	feedMessages = 500 // asked for at once, unless FeedConfig says otherwise
	feedBytes    = 8 << 20
	feedExpires  = 30 * time.Second
	feedBeat     = 2 * time.Second // in which the server says that it is there
	feedStall    = 5 * time.Second // without a word of it
	feedIdle     = time.Minute     // after which the server forgets our consumer
	feedRequest  = 5 * time.Second // to make the consumer
)

// FeedConfig configures a Feed. Zero fields have defaults.
type FeedConfig struct {
	Stream  string
	Filters []string // none: everything
	// FromSeq is the first sequence. 0 begins at Since; if both are zero, at the
	// stream's begin.
	FromSeq  uint64
	Since    time.Time
	Messages int // asked for at once; at most two such requests are open
	Bytes    int // of one request; more than any message
}

// Message is a message of a stream.
type Message struct {
	Subject string
	Header  nats.Header
	Data    []byte
	Seq     uint64
	Time    time.Time
	Pending uint64 // how many are behind it
}

// Feed reads messages of a stream in order, by a consumer of its own. Unlike
// the consumers of nats.go it takes everything delivered for a message: those
// take a message with a Status header and no body for a signal of the server,
// stumble over the gap and never deliver anything again, and any client can
// publish one. A Feed is for one goroutine.
type Feed struct {
	nc      *nats.Conn
	cfg     FeedConfig
	pull    string // where to ask for more
	drop    string // where to delete the consumer
	inbox   string
	sub     *nats.Subscription
	msgs    chan *nats.Msg
	changed chan nats.Status
	stall   *time.Timer
	open    int    // asked for, and neither here nor given up by the server
	last    uint64 // of the consumer's deliveries
	pending uint64
}

// OpenFeed makes the consumer. The caller closes the Feed.
func OpenFeed(ctx context.Context, js jetstream.JetStream, names wire.Names, cfg FeedConfig) (*Feed, error) {
	if cfg.Messages == 0 {
		cfg.Messages = feedMessages
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = feedBytes
	}
	conf := jetstream.ConsumerConfig{
		FilterSubjects: cfg.Filters, DeliverPolicy: jetstream.DeliverAllPolicy, AckPolicy: jetstream.AckNonePolicy,
		ReplayPolicy: jetstream.ReplayInstantPolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: feedIdle,
	}
	if len(cfg.Filters) == 1 {
		conf.FilterSubject, conf.FilterSubjects = cfg.Filters[0], nil
	}
	switch {
	case cfg.FromSeq > 0:
		conf.DeliverPolicy, conf.OptStartSeq = jetstream.DeliverByStartSequencePolicy, cfg.FromSeq
	case !cfg.Since.IsZero():
		conf.DeliverPolicy, conf.OptStartTime = jetstream.DeliverByStartTimePolicy, &cfg.Since
	}
	made, cancel := context.WithTimeout(ctx, feedRequest)
	defer cancel()
	c, err := js.CreateConsumer(made, cfg.Stream, conf)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: make a consumer: %w", cfg.Stream, ErrFeedLost, err)
	}
	info := c.CachedInfo()
	f := &Feed{
		nc: js.Conn(), cfg: cfg, pending: info.NumPending,
		pull: names.JetStream("CONSUMER.MSG.NEXT." + cfg.Stream + "." + info.Name), drop: names.JetStream("CONSUMER.DELETE." + cfg.Stream + "." + info.Name),
		msgs: make(chan *nats.Msg, 2*cfg.Messages+16), // room for all that is asked for, and the ends of the requests
	}
	f.inbox = f.nc.NewInbox()
	f.changed = f.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	if f.sub, err = f.nc.ChanSubscribe(f.inbox, f.msgs); err != nil {
		f.nc.RemoveStatusListener(f.changed)
		return nil, fmt.Errorf("read %s: %w: %w", cfg.Stream, ErrFeedLost, err)
	}
	f.stall = time.NewTimer(feedStall)
	return f, nil
}

// Pending returns how many messages there were when the Feed was opened.
func (f *Feed) Pending() uint64 { return f.pending }

// Close ends it. What was not taken is read by the next Feed.
func (f *Feed) Close() {
	f.stall.Stop()
	_ = f.sub.Unsubscribe() // fails when the connection is closed
	f.nc.RemoveStatusListener(f.changed)
	_ = f.nc.Publish(f.drop, nil) // unanswered: the server forgets it anyhow, after feedIdle
}

// Next waits for the next message. Its errors are ctx's, and ErrFeedLost.
func (f *Feed) Next(ctx context.Context) (Message, error) {
	f.stall.Reset(feedStall) // the time since the last call is the caller's
	for {
		if err := f.ask(); err != nil {
			return Message{}, err
		}
		select {
		case m := <-f.msgs:
			f.stall.Reset(feedStall)
			if m.Subject != f.inbox {
				return f.take(m)
			}
			if err := f.word(m); err != nil {
				return Message{}, err
			}
		case <-f.changed:
			return Message{}, f.lost("the connection was broken")
		case <-f.stall.C:
			return Message{}, f.lost("the server sends nothing")
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

func (f *Feed) lost(why string) error {
	return fmt.Errorf("read %s: %w: %s", f.cfg.Stream, ErrFeedLost, why)
}

// ask asks for more once half of the messages asked for have come.
func (f *Feed) ask() error {
	if f.open > f.cfg.Messages/2 {
		return nil
	}
	req := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, f.cfg.Messages, f.cfg.Bytes, feedExpires.Nanoseconds(), feedBeat.Nanoseconds())
	if err := f.nc.PublishRequest(f.pull, f.inbox, req); err != nil {
		return f.lost(err.Error())
	}
	f.open += f.cfg.Messages
	return nil
}

// take reads a delivered message: it comes under its own subject, whatever its
// headers say.
func (f *Feed) take(m *nats.Msg) (Message, error) {
	d, ok := readDelivery(m.Reply)
	if !ok {
		return Message{}, f.lost(fmt.Sprintf("the delivery %q can't be read", m.Reply))
	}
	if d.consumer != f.last+1 {
		return Message{}, f.lost("a delivery is missing")
	}
	f.last = d.consumer
	f.open--
	return Message{Subject: m.Subject, Header: m.Header, Data: m.Data, Seq: d.stream, Time: time.Unix(0, int64(d.nanos)), Pending: d.pending}, nil
}

// delivery holds what the reply subject of a delivered message says.
type delivery struct{ stream, consumer, nanos, pending uint64 }

// readDelivery reads $JS.ACK, the stream, the consumer, the number of deliveries,
// and the four; newer servers may put domain and account before the stream, and a
// token behind. nats.go's own reader makes garbage of each.
func readDelivery(reply string) (d delivery, ok bool) {
	skip := 5
	if n := strings.Count(reply, "."); n >= 10 {
		skip = 7
	} else if n != 8 {
		return d, false
	}
	for range skip {
		_, reply, _ = strings.Cut(reply, ".")
	}
	for _, v := range [...]*uint64{&d.stream, &d.consumer, &d.nanos, &d.pending} {
		var token string
		var err error
		token, reply, _ = strings.Cut(reply, ".")
		if *v, err = strconv.ParseUint(token, 10, 64); err != nil {
			return d, false
		}
	}
	return d, true
}

// word takes what the server itself says, on the inbox.
func (f *Feed) word(m *nats.Msg) error {
	switch status := m.Header.Get("Status"); status {
	case "100":
		// It comes after all deliveries that it counts. What was sent while a link between
		// servers was cut is lost, and there may be no later delivery to show the gap.
		if n, err := strconv.ParseUint(m.Header.Get("Nats-Last-Consumer"), 10, 64); err == nil && n > f.last {
			return f.lost("a delivery is missing")
		}
		return nil
	case "408", "409":
		if n, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")); err == nil { // a request has ended
			f.open = max(f.open-n, 0)
			return nil
		}
		return f.lost(m.Header.Get("Description"))
	default:
		return f.lost("the server answers " + status + " " + m.Header.Get("Description"))
	}
}
