package query_test

import (
	"slices"
	"testing"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector/query"
	"github.com/streamwright/streamwright/wire"
)

func TestRejectedIsListedAndFound(t *testing.T) {
	s := newSim(t, 1, openMem(t))
	id := s.submit(core.Submit{Type: "email"})
	for i := range uint64(30) {
		s.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: []string{"bad_params", "bad_header"}[i%2], Message: "no", Text: "{", Intake: events.Intake{Seq: i + 1}}})
	}
	s.do(core.Reject{Type: "email", Rejected: events.Rejected{Code: "duplicate", Of: id, Intake: events.Intake{Seq: 31}}})
	s.project()
	var seqs []events.Seq
	q := wire.ListRejected{Code: "bad_header", Limit: 4}
	for {
		page, err := query.Of(s.store).Rejected(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Rejected {
			if seqs = append(seqs, r.Seq); r.Code != "bad_header" || r.Text != "" {
				t.Errorf("%+v", r)
			}
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			break
		}
	}
	if len(seqs) != 15 || !slices.IsSortedFunc(seqs, func(a, b events.Seq) int { return int(b) - int(a) }) {
		t.Errorf("listed %v", seqs)
	}
	if _, of, found, err := query.Of(s.store).Answer(31); err != nil || !found || of != id {
		t.Errorf("the duplicate repeats %s, %v, %v", of, found, err)
	}
	seq, of, found, err := query.Of(s.store).Answer(30)
	if err != nil || !found || !of.IsZero() || seq != seqs[0] {
		t.Errorf("message 30: event %d, %s, %v, %v", seq, of, found, err)
	}
	s.do(core.PurgeRejected{Seq: seq})
	s.project()
	if _, found, err := query.Of(s.store).RejectedOf(seq); found || err != nil {
		t.Errorf("it was purged: %v, %v", found, err)
	}
	if page, err := query.Of(s.store).Rejected(wire.ListRejected{Type: "email"}); err != nil || len(page.Rejected) != 29 {
		t.Errorf("%d are left, %v", len(page.Rejected), err)
	}
}
