package dispatcher

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamwright/streamwright/events"
)

// published publishes submissions and notes which sequence each got.
type published struct {
	*harness
	acked map[uint64]string // params by sequence
}

func (p *published) publish(n int) (last uint64) {
	p.t.Helper()
	for range n {
		params := fmt.Sprintf(`{"n":%d}`, len(p.acked))
		ack, err := p.js.Publish(p.ctx(), "work.submit.email", []byte(params))
		if err != nil {
			p.t.Fatal(err)
		}
		if _, twice := p.acked[ack.Sequence]; twice {
			p.t.Fatalf("sequence %d was given out twice", ack.Sequence)
		}
		p.acked[ack.Sequence] = params
		last = ack.Sequence
	}
	return last
}

func (p *published) answered(last uint64) {
	p.t.Helper()
	p.until("all are decided", func() bool { m, err := p.store.Meta(); return err == nil && m.IntakeSeq >= last })
}

// check finds the item of each publish by its sequence.
func (p *published) check() {
	p.t.Helper()
	for seq, params := range p.acked {
		id, found, err := p.store.ByIntake(seq)
		if err != nil || !found {
			p.t.Fatalf("publish %d became no item: %v", seq, err)
		}
		if doc, err := p.store.Document(events.DocParams, id); err != nil || string(doc) != params {
			p.t.Fatalf("publish %d is %s, its item has %s, %v", seq, params, doc, err)
		}
	}
}

// The intake is deleted while messages of it are read ahead, and others are
// published to the next one meanwhile: all that was acked becomes an item, each
// by its own sequence.
func TestIntakeMadeAnewUnderReadAhead(t *testing.T) {
	p := &published{newHarness(t, nil), map[uint64]string{}}
	p.answered(p.publish(10))
	p.eng.PauseIntake(true)
	ahead := p.publish(40)
	p.until("they are read ahead", func() bool { return p.eng.read.Load() == ahead })
	if err := p.js.DeleteStream(p.ctx(), "WORK_INTAKE"); err != nil {
		t.Fatal(err)
	}
	if err := p.eng.topology.EnsureStreams(p.ctx()); err != nil { // as a sweep does
		t.Fatal(err)
	}
	last := p.publish(50)
	p.eng.PauseIntake(false)
	p.answered(last)
	p.check()
	p.equalsLog()
}

// No life of the intake gives out a sequence that an earlier one did, however
// that ended.
func TestIntakeSequencesNameOne(t *testing.T) {
	slow(t)
	t.Parallel()
	purge := func(p *published) error {
		s, err := p.js.Stream(p.ctx(), "WORK_INTAKE")
		if err != nil {
			return err
		}
		return s.Purge(p.ctx())
	}
	drop := func(p *published) error { return p.js.DeleteStream(p.ctx(), "WORK_INTAKE") }
	short := func(p *published) error { // what a power loss may leave
		if err := drop(p); err != nil {
			return err
		}
		_, err := p.js.CreateStream(p.ctx(), jetstream.StreamConfig{Name: "WORK_INTAKE", Subjects: []string{"work.submit.*"}, Duplicates: events.MsgIDWindow,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: 1 << 30,
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "work.submit.*", Destination: "work.intake.0.{{wildcard(1)}}"}})
		return err
	}
	for _, c := range []struct {
		name     string
		answered int
		ends     []func(*published) error
	}{
		{"nothing answered", 0, []func(*published) error{drop}},
		{"some answered", 5, []func(*published) error{drop}},
		{"purged", 5, []func(*published) error{purge}},
		{"purged and deleted", 5, []func(*published) error{purge, drop}},
		{"lost its end", 5, []func(*published) error{short}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &published{newHarness(t, nil), map[uint64]string{}}
			if c.answered > 0 {
				p.answered(p.publish(c.answered))
			}
			p.stopEngine()
			p.publish(20) // handed out, and nobody reads them
			for _, end := range c.ends {
				if err := end(p); err != nil {
					t.Fatal(err)
				}
			}
			p.startEngine()
			last := p.publish(5)
			p.answered(last)
			if id, found, err := p.store.ByIntake(last); err != nil || !found || last > 1<<53 {
				t.Fatalf("%d: %v %v %v", last, id, found, err)
			}
		})
	}
}
