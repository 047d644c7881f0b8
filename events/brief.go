package events

import (
	"fmt"
)

// AppendBrief is [Event.AppendJSON] without the document that the event brings:
// the params of created, the result of completed. For where those are kept
// beside it.
func (e *Event) AppendBrief(b []byte) ([]byte, error) {
	switch d := e.Body.(type) {
	case *Created:
		b, err := appendCreatedRest(append(e.appendHead(b), `,"data":{`...), d)
		if err != nil {
			return nil, fmt.Errorf("encode %s event of %s: %w", e.Kind, e.ID, err)
		}
		return append(b, '}'), nil
	case *Completed:
		return append(appendCompleted(append(e.appendHead(b), `,"data":`...), &Completed{DurationMS: d.DurationMS}), '}'), nil
	}
	return e.AppendJSON(b)
}
