package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/internal/sleep"
)

// Bounds of asking for the end of a replicated log.
const (
	// tipAgain is the wait before the leader is asked again.
	tipAgain = 250 * time.Millisecond
	// slowAck is the time after which an append without an ack asks whether the stream has
	// another leader by now.
	slowAck = 250 * time.Millisecond
	// newLeader is the age from which a leader's first answer is believed: until
	// then, what it says of the log may be from just before it became the
	// leader.
	newLeader = time.Second
	// BehindFor is the time for which a replicated log must be seen to end
	// before a known position until that is believed: longer than a leader that
	// is cut off from the other servers takes to notice (lostQuorumInterval, 10
	// s).
	BehindFor = 15 * time.Second
	// keepAll is more messages than a stream can hold.
	keepAll = 1 << 53
)

// streamInfo is the answer to STREAM.INFO.
type streamInfo struct {
	Error *apiError `json:"error"`
	jetstream.StreamInfo
	Cluster *struct {
		LeaderSince time.Time `json:"leader_since"` // only in an answer of the leader itself
		Replicas    []struct {
			Name string `json:"name"`
		} `json:"replicas"` // the other servers of the stream
	} `json:"cluster"`
}

// byLeader reports whether the stream's leader has answered. A server that is
// not, but was chosen to be the stream's first leader, answers as well while
// the stream is new; and so does each while there is no leader.
func (i *streamInfo) byLeader() bool {
	return i.Cluster == nil || len(i.Cluster.Replicas) == 0 || !i.Cluster.LeaderSince.IsZero()
}

// young reports whether the answer may be from before its server has become the
// leader, since the state is read first.
func (i *streamInfo) young() bool {
	return i.Cluster != nil && !i.Cluster.LeaderSince.IsZero() && i.TimeStamp.Sub(i.Cluster.LeaderSince) < newLeader
}

// leaderSince is zero if it is not the leader who has answered.
func (i *streamInfo) leaderSince() time.Time {
	if i.Cluster == nil {
		return time.Time{}
	}
	return i.Cluster.LeaderSince
}

// led tells one leadership from another: when the leader that has answered began to lead, by
// its own clock. 0: it is not known.
func (i *streamInfo) led() int64 {
	if since := i.leaderSince(); !since.IsZero() {
		return since.UnixNano()
	}
	return 0
}

func (i *streamInfo) tip() Tip {
	st := i.State
	tip := Tip{Seq: st.LastSeq, First: st.FirstSeq, Time: i.TimeStamp, Bytes: st.Bytes, Created: i.Created}
	if st.Msgs == 0 { // FirstSeq is 0 for a stream that never had a message
		tip.First = tip.Seq + 1
	}
	return tip
}

// Last implements Log. Its answer comes from the stream's leader: one that the
// other servers may have deposed in the last seconds, if it can't reach them.
func (l *JetStream) Last(ctx context.Context) (Tip, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AckTimeout)
	defer cancel()
	info, err := l.firstInfo(ctx)
	switch {
	case err == nil && info.Error == nil && (!info.byLeader() || info.young()):
		info, err = l.leadersInfo(ctx, info.leaderSince())
	case errors.Is(err, ErrUnreachable) && l.replicated && ctx.Err() == nil:
		info, err = l.leadersInfo(ctx, time.Time{})
	}
	if err == nil && info.Error != nil {
		err = fmt.Errorf("%s: %w", l.stream, info.Error)
		if info.Error.Code == codeNoStream {
			err = fmt.Errorf("%w: %w: restore it from a backup, or stop the engine and run engine salvage", ErrNoLog, err)
		}
	}
	if err != nil {
		return Tip{}, fmt.Errorf("ask for the end of the event log: %w", err)
	}
	l.led.Store(info.led())
	return info.tip(), nil
}

// deposed reports whether the stream's leader is not the one that led it when led was noted.
// What was sent to the one of then, and has no answer, may never get one.
func (l *JetStream) deposed(ctx context.Context, led int64) bool {
	info, err := l.firstInfo(ctx)
	return err == nil && info.Error == nil && led != 0 && info.led() != 0 && info.led() != led
}

// firstInfo asks once. Servers that have just had an election drop requests, so several
// get little time for an answer.
func (l *JetStream) firstInfo(ctx context.Context) (info streamInfo, err error) {
	if l.replicated {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tipAgain)
		defer cancel()
	}
	err = l.request(ctx, l.infoSubject(), nil, &info)
	return info, err
}

func (l *JetStream) infoSubject() string {
	return l.cfg.Names.JetStream("STREAM.INFO." + l.stream)
}

// leadersInfo asks until the leader has answered, and has been the leader for
// as long as is needed. Several servers may answer at once, so the first answer
// says little. since is from when on the leader is one that has answered already, too young.
func (l *JetStream) leadersInfo(ctx context.Context, since time.Time) (streamInfo, error) {
	nc, err := l.conn()
	if err != nil {
		return streamInfo{}, err
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return streamInfo{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		if err := nc.PublishRequest(l.infoSubject(), inbox, nil); err != nil {
			return streamInfo{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		info, err := l.answerOfLeader(ctx, sub, &since)
		if !errors.Is(err, errAskAgain) {
			return info, err
		}
	}
}

var (
	// errAskAgain: the leader has not answered in a while, or is too young.
	errAskAgain = errors.New("ask again")
	errNoLeader = errors.New("the stream has no leader just now")
)

// answerOfLeader takes the answers of tipAgain.
func (l *JetStream) answerOfLeader(ctx context.Context, sub *nats.Subscription, since *time.Time) (streamInfo, error) {
	wait, cancel := context.WithTimeout(ctx, tipAgain)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(wait)
		switch {
		case err == nil:
		case errors.Is(ctx.Err(), context.Canceled):
			return streamInfo{}, ctx.Err()
		case ctx.Err() != nil:
			return streamInfo{}, fmt.Errorf("%w: %w", ErrUnreachable, errNoLeader)
		case wait.Err() != nil:
			return streamInfo{}, errAskAgain
		default:
			return streamInfo{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		var info streamInfo
		if len(m.Data) == 0 { // nobody serves the JetStream API just now
			continue
		}
		if err := json.Unmarshal(m.Data, &info); err != nil {
			return info, unreadable(m.Subject, err)
		}
		switch {
		case info.Error != nil:
			return info, nil
		case !info.byLeader():
			continue
		case info.young() && !info.Cluster.LeaderSince.Equal(*since):
			// Its next answer was made after it became the leader.
			*since = info.Cluster.LeaderSince
			return info, errAskAgain
		}
		return info, nil
	}
}

func unreadable(subject string, err error) error {
	return fmt.Errorf("unreadable answer of the server on %s: %w", subject, err)
}

// Confirm implements Log: a purge is answered only once most servers have agreed to it, and
// this one drops nothing: no message of the stream has its subject, and it keeps more than
// there can be.
func (l *JetStream) Confirm(ctx context.Context) (Tip, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AckTimeout)
	defer cancel()
	if l.replicated {
		if err := l.purge(ctx, fmt.Appendf(nil, `{"filter":%q,"keep":%d}`, l.cfg.Names.Prefix+".nothing", keepAll)); err != nil {
			return Tip{}, fmt.Errorf("confirm the end of the event log: %w", err)
		}
	}
	return l.Last(ctx)
}

// End implements Log.
func (l *JetStream) End(ctx context.Context) (End, error) {
	tip, err := l.Last(ctx)
	if err != nil {
		return End{}, err
	}
	return tip.End(func(seq uint64) (Stored, error) { return l.get(ctx, seq) })
}

// reached is Last for a caller that knows that the log has reached seq. On a
// replicated stream a leader that the others have deposed may not know that: it
// is asked again for a while, then its answer is returned.
func (l *JetStream) reached(ctx context.Context, seq uint64) (Tip, error) {
	wait := RetryMin
	for begun := time.Now(); ; {
		tip, err := l.Last(ctx)
		if err != nil || tip.Seq >= seq || !l.replicated || time.Since(begun) > BehindFor {
			return tip, err
		}
		if err := sleep.Longer(ctx, &wait, RetryMax); err != nil {
			return Tip{}, err
		}
	}
}
