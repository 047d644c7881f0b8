package core

import (
	"encoding/json"

	"github.com/streamwright/streamwright/events"
)

// FirstSignal is a signal that comes with a submission: to the item that it makes, or to the one
// that it repeats or is merged into. So it starts an item or wakes one, in one decision.
type FirstSignal struct {
	Name    string
	Payload json.RawMessage
	MsgID   string // needed: the submission may come again, and is not to send it again
}

// check checks the signal as one to an item.
func (f *FirstSignal) check() error {
	if f.MsgID == "" {
		return events.Refuse(events.CodeBadRequest, "the submission's signal has no msg_id: choose one, so that the submission can be repeated and sends one signal")
	}
	s := Signal{Name: f.Name, Payload: f.Payload, MsgID: f.MsgID}
	if err := s.check(); err != nil {
		return err
	}
	f.Payload = s.Payload
	return nil
}

// startOrWake adds a signal to the decision of the submission that it came with.
func (d *decider) startOrWake(dec Decision, f FirstSignal) (Decision, error) {
	if err := f.check(); err != nil { // a repeat was not checked
		return Decision{}, err
	}
	it, err := d.receiver(&dec)
	if err != nil {
		return Decision{}, err
	}
	box, err := d.state.mailbox(it)
	if err != nil || box.Has(f.MsgID) {
		return dec, err
	}
	if err := takesSignals(it); err != nil {
		return Decision{}, err
	}
	sent, err := d.deliver(it, &box, &events.Signalled{Name: f.Name, Payload: f.Payload, MsgID: f.MsgID})
	if err != nil {
		return Decision{}, err
	}
	dec.Events = append(dec.Events, sent.Events...)
	return dec, nil
}

// receiver returns the item that gets the signal of a submission: as it is before the decision,
// or, if the decision makes it, new.
func (d *decider) receiver(dec *Decision) (*events.Item, error) {
	id, made := dec.ID, &events.Item{}
	for i := range dec.Events {
		switch ev := &dec.Events[i]; b := ev.Body.(type) {
		case *events.Created:
			made.ID, made.Type = ev.ID, ev.Type
		case *events.Merged:
			id = b.Into
		case *events.Cancelled, *events.Dead:
			if ev.ID == dec.ID {
				return nil, events.Refuse(events.CodeEnded, "an item that it comes after has ended badly, so that it would end at once: no signal would reach it")
			}
		}
	}
	if id == made.ID {
		return made, nil
	}
	it, err := d.canonical(id)
	if err == nil && it == nil {
		err = events.Refuse(events.CodeNotFound, "item %s, which the submission repeats or is merged into, is not there any more", id)
	}
	return it, err
}
