package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/streamwright/streamwright/access"
	"github.com/streamwright/streamwright/access/quota"
	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// Somebody who is still subscribed as an owner, but answers nothing, takes no
// request from the one who does: an engine that is cut off looks like that to the
// NATS server for minutes.
func TestASilentOwnerTakesNoRequest(t *testing.T) {
	r := newRig(t, nil)
	if err := r.svc.Serve(true); err != nil {
		t.Fatal(err)
	}
	silent := r.connect()
	defer silent.Close()
	if _, err := silent.QueueSubscribe(wire.Default.API(wire.APISubmit), "q", func(*nats.Msg) {}); err != nil { // the group of micro services
		t.Fatal(err)
	}
	if err := silent.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		r.submit(wire.Submit{Type: "email"})
	}
}

// fate is what becomes of a request that a node forwards.
type fate int

const (
	refused  fate = iota // not_owner: nobody has taken it
	unknown              // unavailable: the owner's end came before the answer
	done                 // unavailable, but it was done
	silent               // done, and the answer is lost
	answered             // as it should
)

// beside is a second service, whose engine stands by, on the log of a rig. What it forwards
// meets its fate, one after the other; the last stays.
type beside struct {
	r     *rig
	svc   *Service
	fates []fate
	third func() // called with the third request

	mu     sync.Mutex
	bodies [][]byte // that were forwarded
}

// changing is an engine that stands by once it has been asked for something.
type changing struct {
	Core
	stands atomic.Bool
}

func (s *changing) StandsBy() (dispatcher.Standing, bool) {
	return dispatcher.Standing{Owner: "another", Heard: time.Now()}, s.stands.Load()
}

func (s *changing) Do(context.Context, []core.Command, func([]dispatcher.Outcome)) error {
	s.stands.Store(true)
	return events.Refuse(events.CodeNotOwner, "this engine stands by for another")
}

func newBeside(r *rig, stands bool, fates ...fate) *beside {
	r.t.Helper()
	b := &beside{r: r, fates: fates}
	c := &changing{Core: r.eng}
	c.stands.Store(stands)
	nc := r.connect()
	cfg := r.svc.Config
	cfg.Core, cfg.Metrics, cfg.Names = c, NewMetrics(), wire.WithPrefix("beside"+strings.ToLower(nats.NewInbox()[7:])) // so that nobody else hears it
	var err error
	if b.svc, err = New(cfg); err != nil {
		r.t.Fatal(err)
	}
	if _, err = nc.Subscribe(b.svc.Names.Forward("*"), b.meet); err == nil {
		err = nc.Flush()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		nc.Close()
		if err := b.svc.Stop(r.ctx()); err != nil {
			r.t.Error(err)
		}
	})
	return b
}

func (b *beside) meet(m *nats.Msg) {
	endpoint := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	b.mu.Lock()
	f := b.fates[min(len(b.bodies), len(b.fates)-1)]
	b.bodies = append(b.bodies, m.Data)
	if len(b.bodies) == 3 && b.third != nil {
		b.third()
	}
	b.mu.Unlock()
	ask := func() []byte {
		data, err := b.r.svc.Call(b.r.ctx(), endpoint, m.Data)
		if err != nil {
			data, _ = json.Marshal(wire.ErrorReply{Error: wire.FromError(err)})
		}
		return data
	}
	refuse := func(e *events.Error) {
		body := any(wire.ErrorReply{Error: wire.FromError(e)})
		if isArray(m.Data) {
			body = []any{wire.Submitted{ID: "x"}, body}
		}
		data, _ := json.Marshal(body)
		_ = m.Respond(data)
	}
	lost := events.Refuse(events.CodeUnavailable, "the engine is recovering and does not know what became of this")
	switch f {
	case refused:
		refuse(events.Refuse(events.CodeNotOwner, "another engine owns the log"))
	case unknown:
		refuse(lost)
	case done:
		ask()
		refuse(lost)
	case silent:
		ask()
	case answered:
		_ = m.Respond(ask())
	}
}

func (b *beside) asked() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bodies
}

// A request to a node that is not the owner is done once, and answered with its outcome,
// whatever becomes of its first tries.
func TestRequestsFollowTheOwner(t *testing.T) {
	r := newRig(t, nil)
	for name, tc := range map[string]struct {
		stands   bool
		body     string
		fates    []fate
		items, n int
		seconds  bool
	}{
		"it stands by":               {stands: true, body: `{"type":"email"}`, fates: []fate{answered}, items: 1, n: 1},
		"it finds out":               {body: `{"type":"email"}`, fates: []fate{answered}, items: 1, n: 1},
		"the owner changes":          {stands: true, body: `{"type":"email"}`, fates: []fate{refused, refused, answered}, items: 1, n: 3},
		"the owner is interrupted":   {stands: true, body: `{"type":"email"}`, fates: []fate{unknown, answered}, items: 1, n: 2},
		"it was done":                {stands: true, body: ` { "type":"email" } `, fates: []fate{done, done, answered}, items: 1, n: 3},
		"the answer is lost":         {stands: true, body: `{"type":"email","id":""}`, fates: []fate{silent, answered}, items: 1, n: 2, seconds: true},
		"some of many":               {stands: true, body: `[{"type":"email"},{"type":"email","params":"<"}]`, fates: []fate{refused, done, answered}, items: 2, n: 3},
		"with an id of the client's": {stands: true, body: `[{"type":"email","id":"01JD0000000000000000000000"},{"type":"email"}]`, fates: []fate{done, answered}, items: 2, n: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.seconds {
				need.Seconds(t)
			}
			b := newBeside(r, tc.stands, tc.fates...)
			before := count(r)
			data, err := b.svc.Call(r.ctx(), wire.APISubmit, []byte(tc.body))
			if err != nil || bytes.Contains(data, []byte(`"error"`)) {
				t.Fatalf("%s, %v", data, err)
			}
			asked := b.asked()
			if len(asked) != tc.n || count(r)-before != tc.items {
				t.Errorf("forwarded %d times, want %d; %d items, want %d", len(asked), tc.n, count(r)-before, tc.items)
			}
			for _, body := range asked {
				if !bytes.Equal(body, asked[0]) || !identified("id", body) {
					t.Errorf("a try asked for %s, the first for %s", body, asked[0])
				}
			}
		})
	}
}

// count returns the number of items.
func count(r *rig) (n int) {
	r.t.Helper()
	for _, ts := range ask[wire.StatsReply](r, wire.APIStats, wire.StatsRequest{MinPosition: wire.PositionOf(r.eng.Position())}).Types {
		for _, k := range ts.States {
			n += int(k)
		}
	}
	return n
}

// A request that may not be made twice is repeated only if nobody has taken it.
func TestWhatMayNotBeDoneTwiceIsNotRepeated(t *testing.T) {
	r := newRig(t, nil)
	for _, tc := range []struct {
		fates []fate
		n     int
		code  events.Code // "" if it is done
	}{
		{[]fate{refused, answered}, 2, ""},
		{[]fate{unknown, answered}, 1, events.CodeUnavailable},
		{[]fate{done, answered}, 1, events.CodeUnavailable},
	} {
		b := newBeside(r, true, tc.fates...)
		id := r.submit(wire.Submit{Type: "email"}).ID
		ask[wire.Cancelled](r, wire.APICancel, wire.Cancel{ID: id})
		body, _ := json.Marshal(wire.Purge{ID: id})
		_, err := b.svc.Call(r.ctx(), wire.APIPurge, body)
		if n := len(b.asked()); n != tc.n {
			t.Errorf("%v: forwarded %d times, want %d", tc.fates, n, tc.n)
		}
		if tc.code == "" {
			if err != nil {
				t.Errorf("%v: %v", tc.fates, err)
			}
			continue
		}
		if wantCode(t, err, tc.code); !strings.Contains(err.Error(), "it may have been done: look before you ask again") {
			t.Errorf("%v: %v", tc.fates, err)
		}
	}
}

// Who is told to come back later is told at once, and so is who has no owner to ask for
// longer than an election takes.
func TestForwardingEnds(t *testing.T) {
	r := newRig(t, nil)
	b := newBeside(r, true, answered)
	full := &events.Error{Code: events.CodeUnavailable, Message: "the disk is full", RetryAfter: 10 * time.Second}
	r.svc.Full = func() *RoomAlarm { return &RoomAlarm{Why: full} }
	_, err := b.svc.Call(r.ctx(), wire.APISubmit, []byte(`{"type":"email"}`))
	if wantCode(t, err, events.CodeUnavailable); len(b.asked()) != 1 {
		t.Errorf("forwarded %d times", len(b.asked()))
	}
	ctx, cancel := context.WithCancel(r.ctx())
	b = newBeside(r, true, refused)
	b.third = cancel
	if _, err = b.svc.Call(ctx, wire.APIPause, []byte(`{"type":"email"}`)); err == nil || len(b.asked()) != 3 {
		t.Errorf("%v after %d tries", err, len(b.asked()))
	}
}

// What is submitted to a node that is not the owner counts against the quota where all
// that its user submits comes together.
func TestForwardedSubmissionsCountAtTheOwner(t *testing.T) {
	one := 1
	book := quota.New(quota.Config{Settings: quota.Settings{Users: map[string]quota.Limits{"ann \u00e9": {ItemsPerSecond: &one}}}, Now: func() time.Time { return time.Unix(1, 0) }})
	r := newRig(t, func(c *Config) { c.Quotas = book })
	ctx := access.WithIdentity(r.ctx(), access.Identity{Name: "ann \u00e9", Roles: access.RolesOf(access.Submit, access.Read)})
	c := &changing{Core: r.eng}
	c.stands.Store(true)
	cfg := r.svc.Config
	cfg.Core, cfg.Metrics, cfg.Quotas = c, NewMetrics(), nil
	svc, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop(context.Background()) })
	var refused error
	for range 3 {
		if _, err := svc.Call(ctx, wire.APISubmit, []byte(`{"type":"email"}`)); err != nil {
			refused = errors.Join(refused, err)
		}
	}
	if !errors.Is(refused, &events.Error{Code: events.CodeQuotaExceeded}) {
		t.Errorf("three items in a second: %v", refused)
	}
	if _, err := r.svc.Call(ctx, wire.APISubmit, []byte(`{"type":"email"}`)); events.CodeOf(err) != events.CodeQuotaExceeded {
		t.Errorf("one more, at the owner: %v", err)
	}
	if _, err := svc.Call(r.ctx(), wire.APISubmit, []byte(`{"type":"email"}`)); err != nil {
		t.Errorf("the process itself has no quota: %v", err)
	}
}
