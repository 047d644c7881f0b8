package playground

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/streamwright/streamwright/dispatcher/readyq"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
)

// Bounds of a session.
const (
	MaxItems = 500
	MaxLog   = 3000 // events
	MaxSlots = 100
)

const (
	worker       = events.WorkerID("w1")
	defaultSlots = 2
)

// begins is when every session begins.
var begins = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// Session is a log and all that follows from it.
type Session struct {
	state *core.State
	ready *readyq.Queues
	now   time.Time
	slots int
	items []events.ID // in order of submission: number 1 is the first
	log   []entry
	// opens says when a type that the core holds back by a rate may go on.
	opens map[events.Type]time.Time

	frame, tokens, ids, draws uint64
}

// entry is an event of the log.
type entry struct {
	seq  events.Seq
	line []byte
}

// New returns a session whose log has only its owner.
func New() (*Session, error) {
	state, err := core.NewState(core.Empty{})
	if err != nil {
		return nil, err
	}
	state.SetDefaults(events.ProtectedTypeSettings())
	s := &Session{state: state, now: begins, slots: defaultSlots, opens: map[events.Type]time.Time{}}
	s.ready = readyq.New(index{s}, index{s})
	return s, s.decide(core.Own{Owner: "playground", Version: "playground"})
}

// decide has the core decide a command, and applies what follows from it.
func (s *Session) decide(c core.Command) error {
	if len(s.log) >= MaxLog {
		return events.Refuse(events.CodeTooLarge, "the log has %d events, which is all that it has room for here: start again", len(s.log))
	}
	dec, err := core.Decide(s.state, c, s.now)
	if err != nil {
		return err
	}
	follow, err := s.apply(dec.Events)
	for len(follow) > 0 && err == nil {
		id := follow[0]
		follow = follow[1:]
		if dec, err = core.Decide(s.state, core.FollowUp{ID: id}, s.now); err != nil || len(dec.Events) == 0 {
			continue
		}
		var more []events.ID
		more, err = s.apply(dec.Events)
		follow = append(append(follow, more...), id) // it goes on until nothing follows
	}
	return err
}

// apply appends a frame to the log, applies its events, and returns the items whose fate
// may concern others.
func (s *Session) apply(evs []events.Event) (follow []events.ID, err error) {
	if len(evs) == 0 {
		return nil, nil
	}
	s.frame++
	for i, ev := range evs {
		ev.Seq = events.SeqOf(s.frame, i)
		line, err := ev.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		s.log = append(s.log, entry{ev.Seq, line})
		if err := s.state.Apply(ev); err != nil {
			return nil, err
		}
	}
	follow = s.state.TakeFollowUps()
	return follow, s.changed(s.state.TakeChanges())
}

// changed keeps the ready queues, and the numbers of the items.
func (s *Session) changed(c *core.Changes) error {
	for _, t := range c.Types {
		s.ready.ReleaseType(t.Type) // its limits may have changed
		delete(s.opens, t.Type)
	}
	for _, ch := range c.Items {
		if ch.Old == nil {
			s.items = append(s.items, ch.New.ID)
		} else if ch.Old.State == events.StateQueued {
			s.ready.Remove(ch.Old)
		} else if running(ch.Old) && !running(ch.New) {
			s.ready.Moved(ch.Old.Type, ch.Old.Group)
		}
		if err := s.readyIfDue(ch.New); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) readyIfDue(it *events.Item) error {
	if it.State != events.StateQueued || it.AvailableAt.After(s.now) {
		return nil
	}
	return s.ready.Insert(it)
}

func running(it *events.Item) bool {
	return it.State == events.StateClaimed || it.State == events.StateRunning
}

// settle does all that is due now, and gives free slots to what goes first.
func (s *Session) settle() error {
	its, err := s.all()
	if err != nil {
		return err
	}
	slices.SortStableFunc(its, func(a, b *events.Item) int { return a.TimerAt().Compare(b.TimerAt()) })
	for _, it := range its {
		if it.State == events.StateQueued && !passed(it.ExpiryAt(), s.now) {
			if err := s.readyIfDue(it); err != nil {
				return err
			}
		} else if passed(it.TimerAt(), s.now) || passed(it.ExpiryAt(), s.now) {
			if err := s.decide(core.Due{ID: it.ID, Random: s.random(), NewID: s.newID()}); err != nil {
				return err
			}
		}
	}
	for t, at := s.state.NextPauseEnd(); passed(at, s.now); t, at = s.state.NextPauseEnd() {
		if err := s.decide(core.DuePause{Type: t}); err != nil {
			return err
		}
	}
	for ref, at := s.state.NextCircuit(); passed(at, s.now); ref, at = s.state.NextCircuit() {
		if err := s.decide(core.DueCircuit(ref)); err != nil {
			return err
		}
	}
	s.ready.Release(s.now)
	return s.handOut()
}

// passed reports whether the time at is set and has come.
func passed(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// next returns when something is due next; zero for never.
func (s *Session) next() (time.Time, error) {
	its, err := s.all()
	if err != nil {
		return time.Time{}, err
	}
	_, pause := s.state.NextPauseEnd()
	_, circuit := s.state.NextCircuit()
	times := []time.Time{pause, circuit, s.ready.NextRelease()}
	for _, it := range its {
		times = append(times, it.TimerAt(), it.ExpiryAt())
	}
	for _, at := range s.opens {
		times = append(times, at)
	}
	times = slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(s.now) })
	if len(times) == 0 {
		return time.Time{}, nil
	}
	return slices.MinFunc(times, time.Time.Compare), nil
}

// handOut gives items to free slots, those that go first by rank. A type whose best item
// the core does not let begin is passed over.
func (s *Session) handOut() error {
	over := map[events.Type]bool{}
	for {
		n, err := s.runs()
		if err != nil || len(n) >= s.slots {
			return err
		}
		b, t, err := s.best(over)
		if err != nil || t == "" {
			return err
		}
		s.tokens++
		dec, err := core.Decide(s.state, core.Claim{ID: b.Key.ID, Token: events.NewToken(1, s.tokens), Worker: worker, Start: true}, s.now)
		var held *events.Error
		switch {
		case errors.As(err, &held):
			if over[t] = true; held.RetryAfter > 0 {
				s.opens[t] = s.now.Add(held.RetryAfter)
			}
			continue
		case err != nil:
			return err
		}
		b.Take()
		if _, err := s.apply(dec.Events); err != nil {
			return err
		}
	}
}

// best returns the item that goes next, of all types but some; an empty type for none.
func (s *Session) best(over map[events.Type]bool) (best readyq.Head, of events.Type, err error) {
	for _, t := range s.state.TypeNames() {
		if over[t] {
			continue
		}
		set, _ := s.state.Settings(t)
		b, ok, _, err := s.ready.Best(readyq.Pick{
			Type: t, AgeStep: set.AgeStep.Duration, Now: s.now, Due: s.now, Last: s.now,
			Admits: func(lane string) bool { return lane == "" },
			Open:   func(group string) (bool, time.Time, error) { return s.groupOpen(t, group, set) },
		})
		if err != nil {
			return best, "", err
		}
		if ok && (of == "" || b.Rank > best.Rank || b.Rank == best.Rank && b.Key.Less(best.Key)) {
			best, of = b, t
		}
	}
	return best, of, nil
}

// groupOpen reports whether a group's limits have room for one more run, or when they will.
func (s *Session) groupOpen(t events.Type, group string, set events.TypeSettings) (bool, time.Time, error) {
	if set.GroupCapacity > 0 {
		if n, err := s.state.GroupRuns(t, group); err != nil || n >= int64(set.GroupCapacity) {
			return false, time.Time{}, err
		}
	}
	return s.state.RatesAllow(t, group, 0, s.now)
}

// all returns the items, in order of submission.
func (s *Session) all() ([]*events.Item, error) {
	its := make([]*events.Item, len(s.items))
	for i, id := range s.items {
		var err error
		if its[i], err = s.state.Item(id); err != nil {
			return nil, err
		}
	}
	return its, nil
}

// runs returns the items that run, the one that began first in front.
func (s *Session) runs() ([]*events.Item, error) {
	its, err := s.all()
	its = slices.DeleteFunc(its, func(it *events.Item) bool { return !running(it) })
	slices.SortFunc(its, func(a, b *events.Item) int { return cmp.Compare(a.Token, b.Token) })
	return its, err
}

// newID returns an id with the session's time. Each is higher than the ones before.
func (s *Session) newID() events.ID {
	var id ulid.ULID
	s.ids++
	_ = id.SetTime(ulid.Timestamp(s.now)) // it fails from the year 10889 on
	binary.BigEndian.PutUint64(id[8:], s.ids)
	return events.ID(id)
}

// random returns bits that look drawn: SplitMix64 (Steele, Lea and Flood, 2014).
func (s *Session) random() uint64 {
	s.draws += 0x9e3779b97f4a7c15
	z := s.draws
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Digest returns the SHA-256 of the state that a replay of the log gives: types, items,
// documents, keys, records and history.
func (s *Session) Digest() (string, error) {
	state, err := core.NewState(core.Empty{})
	if err != nil {
		return "", err
	}
	for _, e := range s.log {
		ev, err := events.DecodeEvent(e.line)
		if err != nil {
			return "", err
		}
		ev.Seq = e.seq
		if err := state.Apply(ev); err != nil {
			return "", err
		}
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(state.TakeChanges()); err != nil {
		return "", fmt.Errorf("digest: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:]), nil
}
