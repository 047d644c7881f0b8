package dispatcher

import (
	"testing"
	"time"

	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/events/core"
	"github.com/streamwright/streamwright/projector"
)

// never is a moment from which the next commit is so far off that a test would
// not see it.
func never() time.Time { return time.Now().Add(time.Hour) }

func gatherFrom(t *testing.T, batches ...*batch) (*projection, chan *batch) {
	t.Helper()
	store, err := projector.Open("", projector.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	in := make(chan *batch, MaxUnprojected)
	for _, b := range batches {
		in <- b
	}
	p := newProjection(&pipeline{cfg: &Config{Store: store}, toCommit: in})
	p.began = never()
	return p, in
}

func changed(seq events.Seq) *batch {
	return &batch{changes: &core.Changes{Meta: events.Meta{Applied: seq}}}
}

// alone is a batch that can't be committed with others.
func alone(seq events.Seq) *batch {
	b := changed(seq)
	b.changes.Restated = []core.EncodedHistory{{}}
	return b
}

func (p *projection) took() (seqs []events.Seq) {
	for _, c := range p.changes {
		seqs = append(seqs, c.Meta.Applied)
	}
	return seqs
}

func TestProjectionIsHurried(t *testing.T) {
	t.Run("by one who waits for a position", func(t *testing.T) {
		p, _ := gatherFrom(t, changed(1), changed(2))
		came := make(chan error, 1)
		go func() { came <- p.store.Await(t.Context(), 2) }()
		for p.store.Applied() < 2 { // the first may be taken before he waits
			if !p.gather() {
				t.Fatal("there is nothing to commit")
			}
			if err := p.store.Commit(p.changes...); err != nil {
				t.Fatal(err)
			}
			p.began = never()
		}
		if err := <-came; err != nil {
			t.Error(err)
		}
	})
	t.Run("by one who waits for an item", func(t *testing.T) {
		p, _ := gatherFrom(t, changed(1), changed(2), changed(3))
		p.asked = func(c *core.Changes) bool { return c.Meta.Applied == 1 }
		if !p.gather() || len(p.took()) != 3 {
			t.Errorf("takes %v, want all that is there", p.took())
		}
	})
	t.Run("by many batches", func(t *testing.T) {
		p, in := gatherFrom(t)
		for i := range projectBatches + 3 {
			in <- changed(events.Seq(i + 1))
		}
		if !p.gather() || len(p.took()) != projectBatches {
			t.Errorf("takes %d batches, want %d", len(p.took()), projectBatches)
		}
	})
	t.Run("by many bytes", func(t *testing.T) {
		p, _ := gatherFrom(t, &batch{bytes: projectBytes, changes: changed(1).changes}, changed(2))
		if !p.gather() || len(p.took()) != 1 {
			t.Errorf("takes %v, want the first", p.took())
		}
	})
	t.Run("by the end", func(t *testing.T) {
		p, in := gatherFrom(t, changed(1), changed(2))
		close(in)
		if !p.gather() || len(p.took()) != 2 {
			t.Errorf("takes %v, want both", p.took())
		}
		if p.gather() {
			t.Errorf("takes %v after the end", p.took())
		}
	})
	t.Run("after a rest", func(t *testing.T) {
		p, _ := gatherFrom(t, changed(1))
		p.began = time.Now().Add(-time.Hour)
		if !p.gather() || len(p.took()) != 1 {
			t.Errorf("takes %v", p.took())
		}
	})
}

func TestWhatIsProjectedAlone(t *testing.T) {
	p, in := gatherFrom(t, changed(1), alone(2), alone(3), changed(4))
	close(in)
	var took [][]events.Seq
	for p.gather() {
		took = append(took, p.took())
		p.began = never()
	}
	if len(took) != 4 {
		t.Errorf("takes %v, want one by one", took)
	}
}
