package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/streamwright/streamwright/blobs"
	"github.com/streamwright/streamwright/events"
	"github.com/streamwright/streamwright/wire"
)

// Work may be handed to another namespace of the engine, which must accept it from this one.
// The other one decides it as if it had been asked itself, and this one's log has nothing of
// it: a repeat, with the id that the client gave, is recognised there. So it is done exactly
// once, whoever crashes meanwhile, as long as the client repeats what was not answered.

const (
	// maxHanded bounds the requests that are being handed to other namespaces.
	maxHanded = 64
	// handTimeout bounds each of them. The client then asks again.
	handTimeout = 10 * time.Second
)

// elsewhere returns the namespace to which submissions are to be handed; empty for those of
// this one. All of a request go to one.
func (a *submitAPI) elsewhere(subs []wire.Submit, errs []error) (to events.Namespace, err error) {
	own := a.Names.InNamespace()
	for i := range subs {
		ns := events.Namespace(subs[i].Namespace)
		if ns == "" || ns == own {
			subs[i].Namespace, ns = "", ""
		} else if _, err := events.ParseNamespace(string(ns)); err != nil {
			return "", events.Refuse(events.CodeBadRequest, "%v", err)
		}
		if i > 0 && ns != to {
			return "", events.Refuse(events.CodeBadRequest, "the items of one request go to one namespace, and these to several: make a request for each")
		}
		to = ns
	}
	for _, err := range errs {
		if err != nil && to != "" {
			return "", err
		}
	}
	return to, nil
}

// hand has another namespace decide submissions, all or none of which can be handed.
func (a *submitAPI) hand(c *call, to events.Namespace, subs []wire.Submit, array bool) {
	body, err := a.handed(subs)
	if err == nil && a.Hand == nil {
		err = NotAccepted(a.Names.InNamespace(), to)
	}
	if err != nil {
		c.reply(nil, err)
		return
	}
	c.s.async(a.handing, handTimeout, func(ctx context.Context, _ *call) (any, error) {
		answers, err := a.ask(ctx, to, body, len(subs))
		if err != nil || array {
			return answers, err
		}
		return answers[0], answers[0].Error.Err()
	})(c)
}

// handed returns the request to the other namespace. It gives an id to what has none, so that
// the engine itself may repeat it.
func (a *submitAPI) handed(subs []wire.Submit) ([]byte, error) {
	body := []byte{'['}
	for i := range subs {
		s := &subs[i]
		if err := mayHand(s); err != nil {
			return nil, err
		}
		if s.Namespace = ""; s.ID == "" {
			s.ID = a.Core.NewID().String()
		}
		if s.Source == "" {
			s.Source = "namespace " + string(a.Names.InNamespace())
		}
		if i > 0 {
			body = append(body, ',')
		}
		var err error
		if body, err = wire.AppendSubmit(body, s); err != nil {
			return nil, events.Refuse(events.CodeBadParams, "the item can't be written as JSON: %v", err)
		}
	}
	return append(body, ']'), nil
}

// mayHand refuses what means something in its own namespace alone.
func mayHand(s *wire.Submit) error {
	switch {
	case len(s.After) > 0:
		return events.Refuse(events.CodeBadRequest, "an item that is handed to the namespace %s can't come after items of this one: submit it there when they have ended, from the handler of an item that comes after them here", s.Namespace)
	case s.Batch != "":
		return events.Refuse(events.CodeBadRequest, "an item that is handed to the namespace %s can't be in a batch of this one: submit it without, or open a batch there", s.Namespace)
	case s.Signal != nil:
		return events.Refuse(events.CodeBadRequest, "an item that is handed to the namespace %s can't have a signal with it: submit it there", s.Namespace)
	case blobs.IsRef(s.Params):
		return events.Refuse(events.CodeTooLarge, "the params of an item that is handed to the namespace %s are too large to go with it, and this namespace's documents can't be read there: keep them elsewhere, and submit where they are", s.Namespace)
	}
	return nil
}

// ask asks the other namespace. A position in its log means nothing here.
func (a *submitAPI) ask(ctx context.Context, to events.Namespace, body []byte, n int) ([]wire.Submitted, error) {
	data, err := a.Hand(ctx, a.Names.InNamespace(), to, body)
	if err != nil {
		return nil, known(err)
	}
	var answers []wire.Submitted
	if err := json.Unmarshal(data, &answers); err != nil || len(answers) != n {
		return nil, events.Refuse(events.CodeInternal, "the answer of the namespace %s can't be read (%v)", to, err)
	}
	for i := range answers {
		answers[i].Position = ""
		if answers[i].Error == nil {
			answers[i].Namespace = string(to)
		}
	}
	return answers, nil
}

// NotAccepted refuses what a namespace does not accept, in the same words as what goes to one
// that is not there: who may not hand anything to it does not learn whether it exists.
func NotAccepted(from, to events.Namespace) error {
	return events.Refuse(events.CodeNotFound, "there is no namespace %q here that accepts work from %s: check its name; whoever operates the engine lets it accept that (`engine namespace set %s --accept %s`)", to, from, to, from)
}

// Accept decides the submissions of another namespace, from which this one accepts them. They
// count against the rate of this one.
func (s *Service) Accept(ctx context.Context, body []byte) ([]byte, error) {
	if err := s.Quotas.Request(); err != nil {
		return nil, err
	}
	return s.Call(ctx, wire.APISubmit, body)
}
