package logmirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/streamwright/streamwright/connect"
	"github.com/streamwright/streamwright/eventlog"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

const (
	// Silent is the time without a word after which a mirror, or its hub, counts as cut
	// off.
	Silent = 5 * time.Second
	// mirrorAnswers bounds the answer to a mirror, and mirrorReads the requests that the
	// hub answers for one at once.
	mirrorAnswers = 5 * time.Second
	mirrorReads   = 16
	// mirrorIdle is the time without a reader after which the server forgets a mirror's
	// consumer.
	mirrorIdle = 10 * time.Second
)

// mirrorAsk is what a mirror asks its hub: how the log is, and one of what follows, or
// neither.
type mirrorAsk struct {
	At uint64 `json:"at"` // the mirror's last event
	// Stream asks for a stream's messages from From on. Checksum is that of the frame
	// before From, as the mirror has it; 0: it has none.
	Stream   string `json:"stream,omitempty"`
	From     uint64 `json:"from,omitempty"`
	Checksum uint64 `json:"checksum,omitempty,string"`
	// Endpoint asks for the owner's answer to a request that changes nothing.
	Endpoint string          `json:"endpoint,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
}

// mirrorAnswer is the hub's answer.
type mirrorAnswer struct {
	First   uint64     `json:"first"` // frame of the log
	Last    uint64     `json:"last"`
	End     events.Seq `json:"end"`     // position of the last event
	Created time.Time  `json:"created"` // the log's identity
	Time    time.Time  `json:"time"`    // the clock of the hub's NATS server
	// Consumer is the consumer that sends the stream, as JetStream describes it.
	Consumer *jetstream.ConsumerInfo `json:"consumer,omitempty"`
	// Differs says that the stream asked for is not what the mirror has copied: it ends
	// before, or its message before From is another.
	Differs bool            `json:"differs,omitempty"`
	Reply   json.RawMessage `json:"reply,omitempty"`
	Error   *wire.Error     `json:"error,omitempty"` // nothing of the above counts
}

// HubConfig says for which site a Hub answers, and from what. All fields must be set.
type HubConfig struct {
	Conn   *nats.Conn // the engine's own
	Names  wire.Names
	Site   string
	Owns   func() bool // this engine owns the log
	Log    eventlog.Log
	Call   func(ctx context.Context, endpoint string, body []byte) ([]byte, error)
	Heard  func(at, end events.Seq) // the mirror has come to at, and the log to end
	Logger *slog.Logger
}

// Hub answers a site that mirrors the log. The owner of the log alone does.
//
// It makes the consumers that feed the mirror, each with a subject of its own: so nothing
// reaches a mirror but what follows on the event that it named, of the log that has it.
type Hub struct {
	HubConfig
	sub    *nats.Subscription
	asked  chan struct{} // closed when sub has called back for the last time
	cancel context.CancelFunc
	reads  chan struct{} // a token for each request that is answered
	wg     sync.WaitGroup

	mu    sync.Mutex
	feeds map[string]string // guarded by mu; the consumer of each stream
}

// Serve begins to answer the site, until Stop.
func Serve(c HubConfig) (*Hub, error) {
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hub{HubConfig: c, cancel: cancel, asked: make(chan struct{}), reads: make(chan struct{}, mirrorReads), feeds: map[string]string{}}
	var err error
	if h.sub, err = c.Conn.Subscribe(c.Names.MirrorAsk(c.Site), func(m *nats.Msg) { h.hear(ctx, m) }); err != nil {
		cancel()
		return nil, fmt.Errorf("answer the mirror %s: %w", c.Site, err)
	}
	h.sub.SetClosedHandler(func(string) { close(h.asked) })
	return h, nil
}

// Stop ends the answers.
func (h *Hub) Stop() {
	_ = h.sub.Unsubscribe() // fails when the connection is closed
	h.cancel()
	<-h.asked
	h.wg.Wait()
}

func (h *Hub) hear(ctx context.Context, m *nats.Msg) {
	var ask mirrorAsk
	if !h.Owns() || m.Reply == "" || json.Unmarshal(m.Data, &ask) != nil {
		return
	}
	answer := func() {
		ctx, cancel := context.WithTimeout(ctx, mirrorAnswers)
		defer cancel()
		a, err := h.answer(ctx, &ask)
		if err != nil {
			a = mirrorAnswer{Error: wire.FromError(err)}
		}
		if data, err := json.Marshal(a); err == nil {
			_ = m.Respond(data) // a mirror without an answer asks again
		}
	}
	if ask.Endpoint == "" {
		answer()
		return
	}
	select {
	case h.reads <- struct{}{}:
		h.wg.Go(func() {
			defer func() { <-h.reads }()
			answer()
		})
	default: // it has asked for more than it may at once
	}
}

func (h *Hub) answer(ctx context.Context, ask *mirrorAsk) (a mirrorAnswer, err error) {
	if ask.Endpoint != "" {
		if e, ok := wire.EndpointOf(ask.Endpoint); !ok || !e.ReadOnly || e.Stream {
			return a, events.Refuse(events.CodeForbidden, "a mirror may not ask for %q", events.Clip(ask.Endpoint, 64))
		}
		a.Reply, err = h.Call(ctx, ask.Endpoint, ask.Body)
		return a, err
	}
	end, err := h.Log.End(ctx)
	if err != nil {
		return a, err
	}
	h.Heard(events.Seq(ask.At), end.Last)
	a = mirrorAnswer{First: end.First, Last: end.Seq, End: end.Last, Created: end.Created, Time: end.Time}
	names := h.Names
	switch ask.Stream {
	case "":
		return a, nil
	case names.EventStream(0):
		a.Differs, err = h.differs(ctx, ask, end.Tip)
	case names.LogStream():
		a.Differs, err = h.endsBefore(ctx, ask)
	default:
		err = events.Refuse(events.CodeForbidden, "a mirror may not copy %q", events.Clip(ask.Stream, 64))
	}
	if err == nil && !a.Differs {
		a.Consumer, err = h.feed(ctx, ask)
	}
	return a, err
}

// differs reports whether the mirror's last frame is not the log's. One that the log no
// longer has can't be compared: then the mirror begins anew with what there is.
func (h *Hub) differs(ctx context.Context, ask *mirrorAsk, tip eventlog.Tip) (bool, error) {
	before := ask.From - min(ask.From, 1)
	switch {
	case before > tip.Seq:
		return true, nil
	case before < tip.First || before == 0:
		return false, nil
	}
	sum, err := h.Log.Checksum(ctx, before)
	if errors.Is(err, eventlog.ErrTrimmed) {
		return false, nil
	}
	return sum != ask.Checksum, err
}

// endsBefore reports whether the stream of items' logs ends before what the mirror has.
func (h *Hub) endsBefore(ctx context.Context, ask *mirrorAsk) (bool, error) {
	js, err := connect.JetStream(h.Conn, h.Names)
	if err != nil {
		return false, err
	}
	s, err := js.Stream(ctx, ask.Stream)
	if err != nil {
		return false, fmt.Errorf("look at %s: %w", ask.Stream, err)
	}
	return s.CachedInfo().State.LastSeq+1 < ask.From, nil
}

// feed makes the consumer that sends a stream to the mirror, in place of the one before.
func (h *Hub) feed(ctx context.Context, ask *mirrorAsk) (*jetstream.ConsumerInfo, error) {
	js, err := connect.JetStream(h.Conn, h.Names)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.feeds[ask.Stream]; old != "" {
		_ = js.DeleteConsumer(ctx, ask.Stream, old) // else the server forgets it, which nobody reads any more
	}
	site, id := h.Site, nuid.Next()
	c, err := js.CreatePushConsumer(ctx, ask.Stream, jetstream.ConsumerConfig{
		Name: "mirror_" + site + "_" + id, Description: "feeds the mirror " + site, DeliverSubject: h.Names.MirrorFeed(site) + "." + id,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(ask.From, 1), AckPolicy: jetstream.AckNonePolicy, ReplayPolicy: jetstream.ReplayInstantPolicy,
		FlowControl: true, IdleHeartbeat: time.Second, MemoryStorage: true, Replicas: 1, InactiveThreshold: mirrorIdle,
	})
	if err != nil {
		return nil, fmt.Errorf("feed the mirror %s: %w", site, err)
	}
	info := c.CachedInfo()
	h.feeds[ask.Stream] = info.Name
	h.Logger.Info("a mirror follows", "site", site, "stream", ask.Stream, "from", ask.From)
	return info, nil
}
