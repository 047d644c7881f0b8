package query_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
)

func TestItemAtATimeAndBeforeItWasThere(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	s.do(core.Own{Owner: "me"})
	s.now = s.now.Add(time.Minute)
	id := s.submit(core.Submit{Type: "email", Params: json.RawMessage(`{"v":1}`)})
	born := s.now
	s.now = s.now.Add(time.Minute)
	s.do(core.Cancel{ID: id})
	s.now = s.now.Add(time.Minute)
	s.do(core.Replay{ID: id, Params: json.RawMessage(`{"v":2}`)})
	s.project()
	if _, found, err := query.Of(s.store).ItemAt(id, 1, time.Time{}); found || err != nil {
		t.Errorf("before it was there: %v %v", found, err)
	}
	it, found, err := query.Of(s.store).ItemAt(id, 0, born.Add(time.Second))
	if err != nil || !found || it.State != events.StateQueued || it.Params != nil || len(it.Notes) != 1 || it.AsOf.Latest {
		t.Errorf("%+v %v %v", it, found, err)
	}
	it, found, err = query.Of(s.store).ItemAt(id, 0, s.now)
	if err != nil || !found || string(it.Params) != `{"v":2}` || len(it.Notes) != 0 || !it.AsOf.Latest {
		t.Errorf("%+v %v %v", it, found, err)
	}
}
