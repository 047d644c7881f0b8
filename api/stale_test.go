package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/streamwright/streamwright/dispatcher"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/internal/need"
	"github.com/streamwright/streamwright/wire"
)

// apart is an engine that is apart from the others in one way or another.
type apart struct {
	Core
	way atomic.Pointer[string]
}

func (a *apart) is(way string) bool { return *a.way.Load() == way }

func (a *apart) StandsBy() (dispatcher.Standing, bool) {
	st := dispatcher.Standing{Owner: "another", Heard: time.Now()}
	if a.is("cut off") {
		st.Fault = errors.New("no route to the log")
	}
	return st, !a.is("an owner without the others") && !a.is("an owner")
}

func (a *apart) End(ctx context.Context) (events.Seq, error) {
	switch {
	case a.is("a silent leader"):
		return 0, errors.New("no answer")
	case a.is("just back"):
		return a.Position() + 1, nil
	}
	return a.Core.End(ctx)
}

func (a *apart) reached(context.Context) error {
	if a.is("an owner without the others") {
		return errors.New("1 of 3 nodes is reached")
	}
	return nil
}

// What a node lacks that can't know what the others have accepted is not said not to be there.
func TestAbsenceOnANodeThatIsCutOff(t *testing.T) {
	a := &apart{}
	way := "an owner"
	a.way.Store(&way)
	r := newRig(t, func(c *Config) { a.Core = c.Core; c.Core, c.Reached = a, a.reached })
	here := r.submit(wire.Submit{Type: "email"})
	id := func(id string) string { return `{"id":"` + id + `"}` }
	const elsewhere = "01J00000000000000000000000"
	for _, way := range []string{"an owner", "a standby", "an owner without the others", "cut off", "a silent leader", "just back"} {
		a.way.Store(&way)
		well := way == "an owner" || way == "a standby"
		code, text := events.CodeNotFound, ""
		if !well {
			code, text = events.CodeUnavailable, "this node may lack what others have accepted"
		}
		for _, endpoint := range []string{wire.APIGet, wire.APIHistory, wire.APILogs, wire.APITree, wire.APIWait} {
			body := id(elsewhere)
			if endpoint == wire.APIWait {
				body = `{"ids":["` + here.ID + `","` + elsewhere + `"]}`
			}
			_, err := r.svc.Call(r.ctx(), endpoint, []byte(body))
			if events.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %s of what is not there: %v", way, endpoint, err)
			}
		}
		for _, id := range []string{elsewhere, here.ID} { // here is not completed, as far as this node knows
			if _, err := r.svc.Document(r.ctx(), id, true); events.CodeOf(err) != code {
				t.Errorf("%s: a result that is not there: %v", way, err)
			}
		}
		if _, err := r.svc.Call(r.ctx(), wire.APIGet, []byte(id(here.ID))); err != nil {
			t.Errorf("%s: get of what is there: %v", way, err)
		}
		for _, endpoint := range []string{wire.APIList, wire.APIDead, wire.APICauses, wire.APIRejected, wire.APISchedules, wire.APINamespaces} {
			data, err := r.svc.Call(r.ctx(), endpoint, []byte("{}"))
			var page struct{ Stale string }
			if err == nil {
				err = json.Unmarshal(data, &page)
			}
			if err != nil || (page.Stale == "") != well {
				t.Errorf("%s: %s: %v, stale %q", way, endpoint, err, page.Stale)
			}
		}
	}
}

// An owner that has not reached most of the nodes for longer than they take to choose a
// leader is not well, also while it has nothing to do.
func TestAnIdleOwnerWithoutTheOthersIsNotWell(t *testing.T) {
	var r reach
	now, why := time.Unix(1893456000, 0), errors.New("1 of 3 nodes is reached")
	for _, step := range []struct {
		after time.Duration
		err   error
		lost  bool
	}{{0, nil, false}, {time.Second, why, false}, {cutOffAfter / 2, why, false}, {cutOffAfter / 2, why, true}, {time.Second, nil, false}, {time.Second, why, false}} {
		now = now.Add(step.after)
		r.seen(step.err, now)
		if got := r.lost(now); (got != nil) != step.lost {
			t.Errorf("at %s: lost is %v", now, got)
		}
	}
	rig := newRig(t, nil)
	need.Eventually(t, "the owner is well", func() bool { return rig.svc.Health().Status == "ok" })
	rig.svc.reach.seen(why, time.Now().Add(-cutOffAfter))
	if h := rig.svc.Health(); h.Status != wire.AlarmCutOff {
		t.Errorf("health %+v", h)
	}
	if ready := rig.svc.Ready(t.Context()); ready.Ready {
		t.Errorf("ready %+v", ready)
	}
}

// An owner without the others says of its types, too, that some may be missing.
func TestTypesOfAnOwnerWithoutTheOthers(t *testing.T) {
	a := &apart{}
	way := "an owner"
	a.way.Store(&way)
	r := newRig(t, func(c *Config) { a.Core = c.Core; c.Core, c.Reached = a, a.reached })
	for _, way := range []string{"an owner", "an owner without the others"} {
		a.way.Store(&way)
		if all := ask[wire.TypesReply](r, wire.APITypes, nil); (all.Stale == "") != a.is("an owner") {
			t.Errorf("%s: stale %q", way, all.Stale)
		}
	}
}
